// A mount that is made by one process, in the host's mount namespace and with its privileges, and served by another
// that has neither: the kernel's descriptor goes from one to the other through the service manager. A server that
// systemd confines (ProtectSystem=, PrivateTmp=, ...) could not mount where anybody else sees it.
#pragma once

#include "base/result.h"
#include "cli/config.h"

namespace weightfs {

/// The name under which the service manager keeps the descriptor.
inline constexpr const char* kDeviceName = "fuse";

/// Mounts at the config's mount point, which is made if it is missing, and hands the descriptor to the service manager.
/// A mount whose server died is removed before. Fails with io, and then leaves no mount.
Result<void> attach(const Config& config);

/// Takes the descriptor back from the service manager and removes the mount, in use or not; one that a living server
/// answers for stays. Nothing to do is no failure.
Result<void> detach(const Config& config);

}  // namespace weightfs
