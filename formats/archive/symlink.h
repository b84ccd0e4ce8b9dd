// Symbolic links in a container: their targets, and whether they can leave the root.
#pragma once

#include <string>
#include <string_view>

namespace weightfs::archive {

/// Whether a link with this target at `path` stays inside the root, regardless of other such links on its path: it is
/// relative, has `..` only at its beginning, and not more of them than directories above it.
bool stays_inside(std::string_view path, std::string_view target);

/// The target of a link that stays inside, as a path from the root.
std::string target_of(std::string_view path, std::string_view target);

/// The path of the directory that contains `path`; "" for the root.
std::string_view directory_of(std::string_view path);

/// Follows the links from `part` (any type with a path and a link_target) to a file. Null if a target does not exist,
/// and after as many links as Linux follows. `find` returns the part at a path, or null.
template <class Part, class Find>
const Part* resolve_link(const Part* part, const Find& find) {
  constexpr int kMaxLinks = 40;
  for (int links = 0; part != nullptr && !part->link_target.empty(); ++links)
    part = links == kMaxLinks ? nullptr : find(target_of(part->path, part->link_target));
  return part;
}

}  // namespace weightfs::archive
