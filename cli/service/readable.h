// Whether the user that a service runs as may read its sources, and come to its mount point. To be told "permission
// denied" is of little use to an administrator, who may: here it is said who is kept out, and where.
#pragma once

#include <string>

#include "base/result.h"

namespace weightfs {

/// Fails when this process may not enter a directory on the way to an absolute path.
Result<void> check_reachable(const std::string& path);

/// The same, and when it may not read what is there. What is missing, or is no path but a name, is for others to
/// refuse.
Result<void> check_readable(const std::string& source);

}  // namespace weightfs
