// Locates a SOURCE path, and sets the rules for what can be opened on its behalf.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <string>

#include "sources/disk_folder.h"

namespace weightfs {

/// What a user permits to be opened for a SOURCE.
struct Access {
  uid_t user = ::getuid();  ///< the mounting user
  /// Follow symbolic links out of a SOURCE, regardless of their owner.
  bool follow_links = false;
  /// Other users can read the mount. If root serves it, files that the owner of the SOURCE cannot read are refused.
  bool is_for_others = false;
};

/// Finds the SOURCE at `path`. Opens the directory, or the directory of a file; other files in it are opened by the
/// same rules. If the SOURCE is below manifests/ of a store, the store is the directory. Fails with not_found or io.
Result<Location> locate_source(const std::string& path, const Access& access);

/// The absolute path: its directory without links, and its own name. `..` is not removed textually (`link/..` is the
/// parent of the target). Fails with not_found if the directory does not exist.
Result<std::string> absolute_path(const std::string& path);

}  // namespace weightfs
