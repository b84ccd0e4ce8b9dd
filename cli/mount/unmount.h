// Takes mounts away. What is mounted where is asked of the kernel, never of a server, which may be dead or hang; the
// path that leads there is only walked where that may hang, too.
#pragma once

#include <string>

#include "base/os/mounts.h"
#include "base/result.h"

namespace weightfs {

/// The weightfs mount whose root `path` is, links followed. Fails with io when there is none, or when something else is
/// mounted over it, or when what leads there does not answer.
Result<Mount> weightfs_at(const std::string& path);

enum class Detach {
  when_unused,  ///< a mount that is in use stays
  now,          ///< who uses it goes on; for all others it is gone
};

/// How an unmount ended.
struct Unmounted {
  enum End { done, busy, refused, silent } end;  ///< silent: what leads there does not answer
  std::string why;                               ///< when it was refused, or is silent
};

/// Unmounts that mount: as root, or through fusermount3, which checks that it is the user's own. In a process of its
/// own, as a directory above the mount may lie in a file system that hangs.
Unmounted unmount(const Mount& mount, Detach detach);

/// The same in this process, which waits where a directory above the mount hangs.
Unmounted unmount_here(const Mount& mount, Detach detach);

}  // namespace weightfs
