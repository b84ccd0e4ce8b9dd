// fusermount3(1), the setuid program that mounts and unmounts for users; in its place fusermount(1) of libfuse 2, which
// has the same protocol, where that is all there is.
#pragma once

#include <string>

#include "base/result.h"
#include "fs/fuse/session_params.h"

namespace weightfs {

struct Fusermount {
  std::string name = "fusermount3";  ///< for run_program()
  std::string path;                  ///< "" if there is none
};

/// The program that is used.
Fusermount find_fusermount();

/// Whether a mount needs mount_by_old_fusermount(): libfuse runs fusermount3 only.
bool needs_old_fusermount();

/// Mounts as fuse::open_mount(), as a user, through fusermount. To be called while the process has one thread.
Result<int> mount_by_old_fusermount(fuse::SessionParams params, const std::string& target);

}  // namespace weightfs
