// Symbolic links that a container names: where they lead, and whether they can leave the root.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace weightfs {

/// Whether a link with this text at `path` leads to a place inside the root, whatever other such links lie on its way:
/// it is relative, has `..` only at its beginning, and no more of them than there are directories above it.
bool stays_inside(std::string_view path, std::string_view target);

/// Where a link that stays inside leads, as a path from the root.
std::string target_of(std::string_view path, std::string_view target);

/// The path of the directory that `path` lies in; "" for the root.
std::string_view directory_of(std::string_view path);

/// What `part` (of whatever has a path and a link_target) leads to, link after link; null where one leads nowhere, and
/// after as many links as Linux follows. `find` gives the part at a path, or null.
template <class Part, class Find>
const Part* followed(const Part* part, const Find& find) {
  constexpr int kMostLinks = 40;
  for (int links = 0; part != nullptr && !part->link_target.empty(); ++links)
    part = links == kMostLinks ? nullptr : find(target_of(part->path, part->link_target));
  return part;
}

/// Calls `take` with each component of a path, the empty ones too.
template <class Take>
void for_each_component(std::string_view path, const Take& take) {
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    take(path.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace weightfs
