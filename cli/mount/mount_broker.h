// The privileged broker of a server: it mounts and unmounts with rights that the server gives up. Mount point, source
// and options are fixed when the broker starts; the server only sends commands.
#pragma once

#include <memory>

#include "base/result.h"
#include "cli/mount/mount_point.h"
#include "cli/mount/unmount.h"
#include "cli/sandbox/broker.h"
#include "fs/fuse/session.h"

namespace weightfs {

class MountBroker {
 public:
  /// Starts the broker of a mount at `point`, with the source and options of `params`. To be called while the process
  /// has one thread. Fails with io. If the server dies, the mount remains, unless it was not usable yet or has the
  /// option auto_unmount.
  static Result<std::unique_ptr<MountBroker>> start(MountPoint point, fuse::SessionParams params);

  /// Creates and claims the mount point and mounts there. Returns the descriptor of /dev/fuse. Fails with io.
  Result<Descriptor> mount() const;

  /// To be called when the mount is usable: releases the claim, raises the read-ahead, and closes the standard
  /// descriptors.
  void start_use() const;

  /// Unmounts the mount made by mount(), even if it was moved.
  UnmountResult unmount(Detach detach) const;

  /// To be called when the mount is gone: its id may be reused by a mount that must not be unmounted.
  void forget() const;

  /// Removes the mount point if mount() created it.
  void remove_mount_point() const;

  /// For use_broker_for_temporary_files().
  const sandbox::Broker& broker() const { return *broker_; }

 private:
  explicit MountBroker(std::unique_ptr<sandbox::Broker> broker) : broker_(std::move(broker)) {}

  std::unique_ptr<sandbox::Broker> broker_;
};

}  // namespace weightfs
