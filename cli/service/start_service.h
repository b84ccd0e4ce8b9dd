// A mount that its service makes: what fstab and mount units ask for with -o service=NAME.
#pragma once

#include <string>

#include "base/result.h"

namespace weightfs {

/// Starts weightfs@`name`.service and returns when it is ready; at an automount point, where others wait for this to
/// return, mounts and returns when the service has taken the mount. Fails with io when it does not start, or when it
/// mounts somewhere else than at `mountpoint`.
Result<void> start_service(const std::string& name, const std::string& mountpoint);

}  // namespace weightfs
