// What decides what a directory on disk is opened as: its entries, and their sizes and times.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "sources/disk_folder.h"

namespace weightfs {

/// A directory, and when it was modified last before it was listed.
struct WatchedDirectory {
  Location location;
  Time modified;
};

/// Nothing if it cannot be examined.
std::optional<WatchedDirectory> watched(const Location& directory);

/// All directories below `top`, itself first; more than 10,000 are left out.
std::vector<WatchedDirectory> directories_below(const Location& top);

/// Equal for the same unchanged file: its device, inode, size and modification time. For a directory only the first
/// two.
std::string version_of(const struct stat& status);

}  // namespace weightfs
