// The parameters of a FUSE session.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fs/adapters/request_statistics.h"
#include "fs/fuse/operation.h"
#include "fs/fuse/passthrough.h"
#include "fs/living/follower.h"
#include "fs/reading/prefetch.h"
#include "fs/tree/forest.h"

namespace weightfs::fuse {

class Rings;

/// The owner of the files, and the permission bits to remove (files have 0444, directories 0555).
struct Ownership {
  uid_t user = ::getuid();
  gid_t group = ::getgid();
  mode_t mask = 0;
};

/// Functions that are called during serving, one at a time, in a thread of their own.
struct SessionCallbacks {
  /// When the root of the mount has replied to a stat; `mount` is the id of the mount, or 0 if another mount already
  /// covers it.
  std::function<void(uint64_t mount)> on_usable = {};
  std::function<void()> on_end = {};  ///< when a signal ends the mount: must cancel pending reads
  /// Unmounts after serving has ended. Without it the path is resolved to unmount, which may block; a mount of
  /// SessionParams::device is not unmounted then.
  std::function<void()> on_unmount = {};
  /// Instead of on_unmount, where the kernel has ended the connection: the mount is gone, and another may have its id.
  std::function<void()> on_gone = {};
  /// When pending requests have delayed the shutdown for longer than kShutdownTimeout: must detach the mount and exit
  /// the process.
  std::function<void()> on_stuck = {};
  /// Signal handlers. A signal in this map does not end the mount. It must be blocked in every thread that was started
  /// before.
  std::map<int, std::function<void()>> on_signals = {};
  std::function<void()> on_tick = {};  ///< every tick_every, unless that is 0
  std::chrono::milliseconds tick_every{0};
};

/// The parameters of a mount.
struct SessionParams {
  std::string mountpoint;            ///< an existing directory, absolute
  std::string source;                ///< the source in /proc/mounts
  std::vector<std::string> options;  ///< for the kernel and fusermount3, besides ro,nosuid,nodev,default_permissions
  /// An open /dev/fuse that is already mounted; the source and options are those of that mount. It is unmounted only by
  /// SessionCallbacks::on_unmount.
  std::optional<int> device = {};
  Ownership ownership = {};
  Passthrough* passthrough = nullptr;                ///< of the files; required by serve()
  Rings* rings = nullptr;                            ///< required by serve()
  Prefetch* prefetch = nullptr;                      ///< is told about reads; null: none
  Follower* follower = nullptr;                      ///< runs while the mount is served; null: nothing changes
  std::function<void(const std::string&)> log = {};  ///< receives each distinct error once
  std::function<void(Ino)> on_open = {};             ///< called for each opened file, in any thread
  SessionCallbacks callbacks = {};
};

}  // namespace weightfs::fuse
