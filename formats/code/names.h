// Names of functions and classes of Python that configurations refer to.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace weightfs::code {

inline bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// "torch" of "torch.nn.Linear".
inline std::string_view package_of(std::string_view name) { return name.substr(0, name.find('.')); }

/// "Linear" of "torch.nn.Linear"; the whole name if it has no dot.
inline std::string_view member_of(std::string_view name) { return name.substr(name.rfind('.') + 1); }

/// Whether a name of a package that is harmless itself leads out of it, or to a function that loads, saves or runs
/// something: "torch.hub.load", "keras.utils.get_file", "nemo.os.system".
bool leads_to_danger(std::string_view name);

}  // namespace weightfs::code
