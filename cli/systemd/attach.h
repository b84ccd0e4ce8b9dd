// A mount that is created by one process, in the mount namespace of the host and with its privileges, and served by
// another process that has neither. The descriptor of /dev/fuse is passed through the service manager. A server
// confined by systemd (ProtectSystem=, PrivateTmp=, ...) cannot mount in the namespace of the host itself.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/systemd/config.h"
#include "cli/systemd/fd_passing.h"

namespace weightfs::service {

/// The name under which the service manager stores the descriptor.
inline constexpr const char* kDeviceName = "fuse";

/// Mounts the sources of the config and returns the descriptor of /dev/fuse. Of `options` noexec and noatime apply;
/// allow_other is always set. The mount point must exist. Fails with io.
Result<Descriptor> mount_device(const Config& config, const std::vector<std::string>& options);

/// Removes the mount made by mount_device() if it is not served.
void remove_device(const Config& config);

/// Mounts at the mount point of the config, created if missing, and passes the descriptor to the service manager. A
/// mount whose server died is removed first. At an automount point the mount helper mounts instead (-o service=). Fails
/// with io, and then leaves no mount.
Result<void> attach(const Config& config, const std::vector<std::string>& options);

/// Removes the descriptor from the service manager and the mount made by attach() for the config of that name, even if
/// busy. If attach() made none, or another process did (a user's service), the mount at `mountpoint` is removed.
/// Succeeds if there is no mount. Fails with io, and keeps its record, if the mount must stay: its server is alive, or
/// not known to be dead and not started by attach(), or another file system covers it.
Result<void> detach(const std::string& name, const std::string& mountpoint);

}  // namespace weightfs::service
