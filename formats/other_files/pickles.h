// Pickles other than checkpoints of PyTorch. They are searched for names, never run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weightfs::other_files {

/// "a pickle of scikit-learn", "a pickle of module.Name" by the first name that it imports, or "a pickle"; nothing if
/// the bytes do not begin like a pickle of protocol 2 to 5.
std::optional<std::string> identify_pickle(std::string_view begin);

}  // namespace weightfs::other_files
