// Mounts through a service: -o service=NAME in fstab and mount units.
#pragma once

#include <string>

#include "base/result.h"

namespace weightfs::service {

/// Starts weightfs@`name`.service and returns when it is ready. At an automount point, where other processes block
/// until this one exits, it mounts itself and returns when the service has accepted the mount. Fails with io if the
/// service does not start, or if its mount point is not `mountpoint`.
Result<void> start_service(const std::string& name, const std::string& mountpoint);

}  // namespace weightfs::service
