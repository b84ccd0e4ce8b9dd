// A mount that is made by one process, in the host's mount namespace and with its privileges, and served by another
// that has neither: the kernel's descriptor goes from one to the other through the service manager. A server that
// systemd confines (ProtectSystem=, PrivateTmp=, ...) could not mount where anybody else sees it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/service/config.h"
#include "cli/service/handover.h"

namespace weightfs {

/// The name under which the service manager keeps the descriptor.
inline constexpr const char* kDeviceName = "fuse";

/// Mounts what the config says, and returns the kernel's descriptor. Of `options` noexec and noatime count; other users
/// are let in always. The mount point is there, and free. Fails with io.
Result<Descriptor> mount_device(const Config& config, const std::vector<std::string>& options);

/// Removes what mount_device() mounted, and nobody came to serve.
void remove_device(const Config& config);

/// Mounts at the config's mount point, which is made if it is missing, and hands the descriptor to the service manager.
/// A mount whose server died is removed before. At an automount point it has the mount's helper mount (-o service=).
/// Fails with io, and then leaves no mount.
Result<void> attach(const Config& config, const std::vector<std::string>& options);

/// Takes the descriptor back from the service manager and removes the mount that attach() made for the config of that
/// name, in use or not; where it made none, or by another process (a user's service), that at `mountpoint`. Nothing to
/// do is no failure. Fails with io, and does not forget what it made, where the mount stays: one that a living server
/// answers for, or that attach() did not make and whose server is not known to be dead, and one that is covered.
Result<void> detach(const std::string& name, const std::string& mountpoint);

}  // namespace weightfs
