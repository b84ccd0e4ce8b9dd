// What a mount has besides the stages of every process that reads containers (cli/pipeline/stages.h): its checks, its
// brokers, and the session that they mount.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/console/log.h"
#include "cli/console/progress.h"
#include "cli/exit.h"
#include "cli/mount/mount_broker.h"
#include "cli/mount_server/serve_params.h"
#include "cli/pipeline/stages.h"

namespace weightfs {

/// Why a mount is not served, and the exit status. Nothing has been logged.
struct MountFailure {
  Error error;
  Exit status;
};

template <class Next>
using MountStage = tl::expected<Next, MountFailure>;

struct Mounting {
  /// Blocks the signals that the mount handles. Fails if the mount would hide a source or the cache.
  static MountStage<Mounting> check(ServeParams params, const MountPoint& point, Log& log);

  /// The first stage: the sources and options leave `params`.
  Plan plan();

  /// Starts the brokers, and returns what they need of the sandbox. To be called while this process has one thread.
  MountStage<Rights> start_brokers(MountPoint point, const Plan& plan);

  /// Logs what the model lacks and what may run code.
  void report(const Reading& reading) const;

  ServeParams params;
  Log* log;
  std::shared_ptr<FileCounter> opening;          ///< the files that are being opened, on a terminal
  std::function<void(const std::string&)> warn;  ///< logs a warning once
  fuse::SessionParams session;                   ///< mount point, source, options for the kernel
  std::unique_ptr<MountBroker> broker;           ///< null if another process mounted, which will also unmount
  fuse::BackingFilesPtr backing_files;           ///< null if no file can pass through
  std::string no_passthrough;                    ///< the reason for that
  std::string no_rings;  ///< why requests do not come by rings (fs/fuse/rings.h); empty if they can

 private:
  Mounting(ServeParams given, const MountPoint& point, Log& log);
  void start_backing_files();
};

/// Blocks a signal until a thread waits for it, so that it does not end the process.
void block_signal(int signal);

}  // namespace weightfs
