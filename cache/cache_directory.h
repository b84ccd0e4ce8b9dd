// The location of a user's cache.
#pragma once

#include <string>

#include "base/result.h"

namespace weightfs {

/// $WEIGHTFS_CACHE, else $XDG_CACHE_HOME/weightfs, else ~/.cache/weightfs; for root /var/cache/weightfs. Fails with
/// not_found when the environment defines none of them.
Result<std::string> cache_directory();

/// Fails with unsupported when the directory is on a weightfs mount, or would be below `mountpoint` (an absolute path
/// without links; empty: none): a mount must not cache into itself.
Result<void> check_not_in_a_mount(const std::string& directory, const std::string& mountpoint = {});

}  // namespace weightfs
