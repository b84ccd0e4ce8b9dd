// Where the cache of a user is.
#pragma once

#include <string>

#include "base/result.h"

namespace weightfs {

/// Where the user's cache is: $WEIGHTFS_CACHE, else $XDG_CACHE_HOME/weightfs, else ~/.cache/weightfs; of root
/// /var/cache/weightfs. Fails with not_found when the environment names none.
Result<std::string> cache_directory();

/// Fails with unsupported when the directory lies on a weightfs mount, or will when it is made, or when `mountpoint`
/// (an absolute path without links; empty: none) is mounted on: a mount does not keep what it shows in itself.
Result<void> check_not_in_a_mount(const std::string& directory, const std::string& mountpoint = {});

}  // namespace weightfs
