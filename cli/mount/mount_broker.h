// The broker of a server: it mounts and unmounts with the rights that the server gives up. What is mounted where is
// fixed when the broker starts; the server only says when.
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
  /// For a mount at `point`, with the source and the options of `mounting`. Only while the process has one thread.
  /// Fails with io. The mount, if there is one, stays when the server dies, unless nobody could use it yet or its
  /// options have auto_unmount.
  static Result<std::unique_ptr<MountBroker>> start(MountPoint point, Mounting mounting);

  /// Makes and claims the mount point and mounts there. Returns the kernel's descriptor. Fails with io.
  Result<Descriptor> mount() const;

  /// Once the mount can be used: releases the claim, raises the read-ahead, and leaves the standard descriptors.
  void start_use() const;

  /// Unmounts what mount() mounted, wherever it is by now.
  Unmounted unmount(Detach detach) const;

  /// Removes the mount point if mount() made it.
  void remove_mount_point() const;

  /// For use_broker_for_temporary_files().
  const Broker& broker() const { return *broker_; }

 private:
  explicit MountBroker(std::unique_ptr<Broker> broker) : broker_(std::move(broker)) {}

  std::unique_ptr<Broker> broker_;
};

}  // namespace weightfs
