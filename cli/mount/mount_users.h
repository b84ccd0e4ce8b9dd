// Finds the processes that keep a mount busy. Reads only /proc, so an unresponsive server does not matter.
#pragma once

#include <string>
#include <vector>

#include "base/os/mounts.h"

namespace weightfs {

struct MountUser {
  uint64_t process;
  std::string name;  ///< name of its program; not trusted
  std::string use;   ///< "working directory", or a path in the mount; not trusted
};

struct MountUsers {
  std::vector<MountUser> found;
  bool is_complete = false;  ///< false: the search timed out
};

/// The processes that use the mount, sorted by pid, with one reason each. Only root sees processes of other users. To
/// be called while this process has one thread.
MountUsers find_mount_users(const Mount& mount);

}  // namespace weightfs
