// Where a SOURCE that is a path lies, and what may be opened on its behalf.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <string>

#include "sources/disk_folder.h"

namespace weightfs {

/// A user's decisions about what is opened for a SOURCE.
struct Access {
  uid_t user = ::getuid();  ///< the mounting user
  /// Follow symbolic links that lead out of a SOURCE, whichever user owns them.
  bool follow_links = false;
  /// Other users see what is read. Where root reads it, files that the owner of the SOURCE may not read are refused.
  bool is_for_others = false;
};

/// Finds the SOURCE at `path`. A directory is opened; so is the directory of a file, of which nothing else is opened
/// but by the same rules; and the store, where the SOURCE lies in its manifests/. Fails with not_found or io.
Result<Location> locate_source(const std::string& path, const Access& access);

/// `path` as it is from anywhere: the directory it lies in without links, and its own name. Nothing is cancelled
/// textually (`link/..` is where the link leads). Fails with not_found when that directory does not exist.
Result<std::string> absolute_path(const std::string& path);

}  // namespace weightfs
