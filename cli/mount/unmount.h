// Unmounts weightfs mounts. Mounts are found in the mount table of the kernel, never by a request to a server, which
// may be dead or hang. Paths are resolved in an isolated process, because a file system on the way may hang as well.
#pragma once

#include <chrono>
#include <string>

#include "base/os/mounts.h"
#include "base/result.h"
#include "cli/process/isolated.h"

namespace weightfs {

/// How long the command `umount` waits: on a busy machine the kernel can take seconds.
inline constexpr std::chrono::seconds kUnmountTimeout{10};

/// The weightfs mount whose root is `path`, with links followed. Fails with io if there is none, if another file system
/// is mounted over it, or if the path is not responding within `timeout`.
Result<Mount> weightfs_at(const std::string& path, std::chrono::milliseconds timeout = kIsolatedTimeout);

enum class Detach {
  if_unused,  ///< fails if the mount is busy
  now,        ///< detaches a busy mount; open files keep working
};

/// The result of an unmount.
struct UnmountResult {
  enum Status { done, busy, refused, unresponsive } status;  ///< unresponsive: its path timed out
  std::string why;                                           ///< if refused or unresponsive
};

/// Unmounts: as root, or through fusermount3, which checks that the mount belongs to the user. Runs in an isolated
/// process, because a directory above the mount may be on a file system that hangs.
UnmountResult unmount(const Mount& mount, Detach detach, std::chrono::milliseconds timeout = kIsolatedTimeout);

/// Unmounts in this process, which blocks if a directory above the mount hangs.
UnmountResult unmount_here(const Mount& mount, Detach detach);

}  // namespace weightfs
