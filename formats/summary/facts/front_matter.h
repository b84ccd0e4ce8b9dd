// The front matter of a model card: the part of YAML that cards use.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weightfs::summary {

/// The maximum size of front matter that is read.
inline constexpr uint64_t kMaxFrontMatter = 256 * 1024;

/// Keys with their values: a scalar is one text. A key with no value, or with one that is neither a scalar nor a list
/// of them, has no text.
using FrontMatter = std::map<std::string, std::vector<std::string>, std::less<>>;

/// The keys at the left margin between the two `---` lines; none if a line is missing. At most 200 keys, of at most 200
/// texts, of at most 200 bytes.
FrontMatter front_matter(std::string_view readme);

/// Removes the first line from `text` and returns it, without its end.
std::string_view next_line(std::string_view& text);

}  // namespace weightfs::summary
