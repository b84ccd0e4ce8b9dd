// The end of the stages of a mount: its forest, status, follower, prefetch and session.
#pragma once

#include "cli/mount_server/mounting.h"
#include "cli/mount_server/status.h"
#include "fs/fuse/operation.h"
#include "fs/fuse/rings.h"
#include "fs/fuse/session.h"
#include "fs/living/follower.h"
#include "fs/reading/prefetch.h"
#include "fs/tree/forest.h"

namespace weightfs {

class FuseServing {
 public:
  FuseServing(Mounting mounting, Reading reading);
  FuseServing(const FuseServing&) = delete;
  FuseServing& operator=(const FuseServing&) = delete;

  /// Mounts and serves until the mount is unmounted. A failure is logged. Exits the process if a source does not
  /// respond at the end. Call it once.
  Exit run();

 private:
  fuse::SessionCallbacks callbacks();
  std::chrono::milliseconds tick_every() const;
  void on_usable();
  void on_stuck();
  void on_tick();
  Result<void> serve();

  Mounting mounting_;
  const OpenOptions options_;
  const std::unique_ptr<SourceTrees> trees_;
  ServeParams& params_;
  Log& log_;
  const fuse::SessionParams& session_;  // mount point, source, options
  const MountBroker* const broker_;     // null if another process mounted
  RequestStatistics statistics_{fuse::kOperationNames};
  fuse::Passthrough passthrough_;
  fuse::Rings rings_;
  ServerState state_;
  Forest forest_;
  Follower follower_;
  Prefetch prefetch_;  // its thread enters directories, which the follower learns of
};

}  // namespace weightfs
