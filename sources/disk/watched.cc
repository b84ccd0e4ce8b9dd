#include "sources/disk/watched.h"

#include <dirent.h>
#include <fmt/core.h>

#include <optional>

namespace weightfs {

std::optional<WatchedDirectory> watched(const Location& directory) {
  const auto found = directory.examine();
  if (!found || !S_ISDIR(found->st_mode)) return std::nullopt;
  return WatchedDirectory{directory, modified(*found)};
}

std::vector<WatchedDirectory> directories_below(const Location& top) {
  constexpr size_t kMaxDirectories = 10'000;
  std::vector<WatchedDirectory> found;
  if (const auto first = watched(top)) found.push_back(*first);
  for (size_t i = 0; i < found.size(); ++i) {
    const Location directory = found[i].location;  // a copy: the vector grows
    const auto entries = directory.root->list(directory.name);
    if (!entries) continue;
    for (const DirectoryEntry& entry : *entries) {
      if (found.size() == kMaxDirectories) return found;
      if (entry.type != DT_DIR && entry.type != DT_UNKNOWN) continue;
      if (const auto below = watched(directory / entry.name)) found.push_back(*below);
    }
  }
  return found;
}

std::string version_of(const struct stat& status) {
  const std::string inode = fmt::format("{:x}:{:x}", status.st_dev, status.st_ino);
  if (S_ISDIR(status.st_mode)) return inode;
  return fmt::format("{}:{:x}:{:x}.{:x}", inode, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

}  // namespace weightfs
