// The directory that a mount without MOUNTPOINT makes.
#pragma once

#include <string>

#include "base/result.h"

namespace weightfs {

/// The name for a mount of `source`: its last component without the suffix of a format, the number of a shard, a
/// revision and a digest; ':' becomes '-'. One path component, never empty. Fails with io if `source` is a path
/// relative to a working directory that was removed.
Result<std::string> mount_name(const std::string& source);

}  // namespace weightfs
