// .weightfs/ in the root of a mount, hidden from listings: the status, statistics, metrics and log of the mount.
#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "cache/blob_store.h"
#include "cli/console/log.h"
#include "cli/console/time.h"
#include "cli/sandbox/sandbox.h"
#include "fs/fuse/passthrough.h"
#include "fs/fuse/statistics.h"
#include "fs/tree.h"
#include "fs/views/checksums.h"

namespace weightfs {

inline constexpr const char* kStatusDirectory = ".weightfs";

/// The state of a mount that is served by this process.
struct MountState {
  std::string source;                ///< as in /proc/mounts
  std::vector<std::string> sources;  ///< absolute paths, or model names
  std::string mountpoint;
  BlobStorePtr store;
  fuse::Statistics& statistics;
  Log& log;
  const fuse::Passthrough& passthrough;
  views::ChecksumsPtr checksums;
  sandbox::SandboxStatus sandbox = {};
  std::string incomplete;                        ///< what the model lacks; empty if it is complete
  std::function<std::string(Ino)> path_of = {};  ///< the path of an inode in the mount
  timespec since = now();
};

/// The directory with status.json, stats.json, metrics (in the text format of Prometheus) and log. `state` must outlive
/// the tree.
TreePtr status_tree(const MountState& state);

/// A one-line summary: "1.2 GiB read, 2 files open, 20.0 MiB fetched; fetching model.gguf, 40 %".
std::string summary_of(const MountState& state);

/// The content of stats.json, as lines for a log.
std::vector<std::string> statistics_of(const MountState& state);

}  // namespace weightfs
