// A path inside of a container that names a file beside the container.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weightfs {

/// `path`, components joined by `/`, without empty components, `.` and `..`. Fails with corrupt if it is empty or
/// absolute, leads out of its directory, has a NUL byte, or is longer than 4095 bytes.
Result<std::string> relative_path(std::string_view path);

}  // namespace weightfs
