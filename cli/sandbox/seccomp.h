// The system call filter (seccomp(2)) of a process that reads containers.
#pragma once

#include "base/result.h"
#include "cli/sandbox/landlock.h"

namespace weightfs::sandbox {

/// Whether the kernel supports seccomp filters.
bool has_seccomp();

/// What a process does besides reading and caching.
struct PermittedCalls {
  Network network = Network::none;
  bool accepts = false;       ///< connections, on sockets that listen already; it watches them, and sends files on them
  bool watches = false;       ///< directories, by inotify(7)
  bool passes_files = false;  ///< open files, to a broker
  bool rings = false;         ///< io_uring(7), whose operations no filter can see
};

/// Restricts all threads of this process for good to the system calls for reading and caching, and to `permitted`.
/// Among others it denies: starting programs or processes, executable mappings, signalling or tracing other processes,
/// changing owners and modes of files, mounting, and all sockets except those that the network and syslog need. A
/// denied call fails with EPERM, an unknown one with ENOSYS, so that a newer C library falls back to an older call.
/// no_new_privs must be set. Fails with unsupported if the kernel has no filters, else with io.
Result<void> filter_system_calls(const PermittedCalls& permitted);

/// Restricts this process for good to what the broker of backing files needs: its socket, the state of descriptors, and
/// the ioctl(2) commands that register backing files. Fails as filter_system_calls().
Result<void> filter_broker_of_backing_files();

}  // namespace weightfs::sandbox
