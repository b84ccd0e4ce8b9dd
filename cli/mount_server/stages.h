// The stages of a mount until its model is open. Each is a type that is made only from the one before it, because their
// order is a rule of the sandbox (docs/security.md):
//   Plan        names and checks; nothing is opened
//   Privileged  the brokers, which keep the rights that this process gives up
//   Confined    the store and the credentials of the user, then the sandbox
//   Reading     the trees: the first bytes of a container are read
// Serving (cli/mount_server/serving.h) is the last stage. A failed stage has logged nothing.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/console/log.h"
#include "cli/console/progress.h"
#include "cli/exit.h"
#include "cli/mount/mount_broker.h"
#include "cli/mount_server/serve_params.h"
#include "fs/source_tree.h"

namespace weightfs {

/// Why a mount is not served, and the exit status.
struct StageFailure {
  Error error;
  Exit status;
};

template <class Next>
using Stage = tl::expected<Next, StageFailure>;

class Plan {
 public:
  /// Blocks the signals that the mount handles. Fails if the mount would hide a source or the cache.
  static Stage<Plan> make(ServeParams params, const MountPoint& point, Log& log);

  ServeParams params;
  Log* log;
  std::shared_ptr<FileCounter> opening;          ///< the files that are being opened, on a terminal
  std::function<void(const std::string&)> warn;  ///< logs a warning once
  std::vector<std::string> sources;              ///< absolute paths, or model names
  fuse::SessionParams session;                   ///< mount point, source, options for the kernel

 private:
  Plan(ServeParams given, const MountPoint& point, Log& log);
};

class Privileged {
 public:
  /// To be called while this process has one thread.
  static Stage<Privileged> start(Plan before, MountPoint point);

  Plan plan;
  std::unique_ptr<MountBroker> broker;  ///< null if another process mounted, which will also unmount
  fuse::BackingFilesPtr backing_files;  ///< null if no file can pass through
  std::string no_passthrough;           ///< the reason for that
  std::string no_rings;                 ///< why requests do not come by rings (fs/fuse/rings.h); empty if they can

 private:
  explicit Privileged(Plan before) : plan(std::move(before)) {}
};

class Confined {
 public:
  /// Fails as use_store() and read_credentials() do, and if the sandbox cannot be entered.
  static Stage<Confined> enter(Privileged before);

  Privileged privileged;
  BlobStorePtr store;
  PrefetchOptions prefetch;
  sandbox::SandboxStatus sandbox;

 private:
  explicit Confined(Privileged before) : privileged(std::move(before)) {}
};

class Reading {
 public:
  /// Fails as SourceTrees::open() does. Logs what the model lacks as an error, or fails with that if a complete model
  /// is required.
  static Stage<Reading> open(Confined before);

  Confined confined;
  std::unique_ptr<SourceTrees> trees;
  TreePtr root;
  std::string missing;  ///< what the model lacks, in a sentence; empty if it is complete

 private:
  explicit Reading(Confined before) : confined(std::move(before)) {}
};

/// What the model lacks, in a sentence; empty if it is complete, or if the root is a directory of models. Fails with
/// that if a complete model is required.
Result<std::string> what_is_missing(const Tree& root, bool require_complete);

/// What a server downloads before it is read. The cache size is that of its file system, or of temporary files; to be
/// called before the sandbox hides it.
PrefetchOptions prefetch_options(const StoreFlags& store_flags, PrefetchMode mode,
                                 std::function<void(const std::string&)> warn);

/// Blocks a signal until a thread waits for it, so that it does not end the process.
void block_signal(int signal);

}  // namespace weightfs
