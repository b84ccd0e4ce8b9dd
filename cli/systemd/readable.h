// Checks that the user of a service can read its sources and reach its mount point. The messages name the user and the
// directory, because "permission denied" alone does not help an administrator.
#pragma once

#include <string>

#include "base/result.h"

namespace weightfs::service {

/// Fails if this process cannot enter a directory on the way to an absolute path.
Result<void> check_reachable(const std::string& path);

/// Fails as check_reachable() does, and if the file cannot be read. Ignores missing files and model names, which are
/// checked later.
Result<void> check_readable(const std::string& source);

}  // namespace weightfs::service
