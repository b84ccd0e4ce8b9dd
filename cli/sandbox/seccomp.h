// The system call filter (seccomp(2)) of a process that reads containers.
#pragma once

#include "base/result.h"
#include "cli/sandbox/landlock.h"

namespace weightfs {

/// Whether the kernel filters system calls.
bool has_seccomp();

/// Allows all threads of this process the system calls that reading, caching and serving take, for good. Refused are
/// among others: to start a program or a process, to map memory as executable, to signal or trace other processes, to
/// change owners and modes of files, to mount, and every socket but those that `network` and the system's log need. A
/// refused call fails with EPERM, one that this filter does not know with ENOSYS, so that a newer C library falls back
/// to an older call. no_new_privs must be set. Fails with unsupported where the kernel has no filters, else with io.
Result<void> filter_system_calls(Network network);

}  // namespace weightfs
