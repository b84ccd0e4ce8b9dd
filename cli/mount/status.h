// .weightfs/ in the root of a mount, hidden from listings: what the mount is, what it was asked, what it fetched, and
// what it said of that.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "cache/blob_store.h"
#include "cli/console/log.h"
#include "cli/console/time.h"
#include "cli/sandbox/sandbox.h"
#include "fs/fuse/statistics.h"
#include "fs/tree.h"

namespace weightfs {

inline constexpr const char* kStatusDirectory = ".weightfs";

/// A mount that is served by this process.
struct Mounted {
  std::string source;                ///< as /proc/mounts names it
  std::vector<std::string> sources;  ///< each as it is from anywhere
  std::string mountpoint;
  BlobStorePtr store;
  Statistics& statistics;
  Log& log;
  SandboxStatus sandbox = {};
  timespec since = now();
};

/// status.json, stats.json, metrics (in Prometheus' text format) and log. `mounted` outlives the tree.
TreePtr status_tree(const Mounted& mounted);

/// How it goes, in a line: "1.2 GiB read, 2 files open, 20.0 MiB fetched; fetching model.gguf, 40 %".
std::string summary_of(const Mounted& mounted);

/// What stats.json tells, as lines for a log.
std::vector<std::string> statistics_of(const Mounted& mounted);

}  // namespace weightfs
