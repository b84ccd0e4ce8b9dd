// The state of a mount or an HTTP server that this process serves, for .weightfs/ and the log.
#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "base/values/shared_text.h"
#include "cache/blob_store.h"
#include "cli/console/log.h"
#include "cli/sandbox/sandbox.h"
#include "fs/adapters/request_statistics.h"
#include "fs/fuse/passthrough.h"
#include "fs/fuse/rings.h"
#include "fs/living/follower.h"
#include "fs/views/checksums.h"
#include "report/text/time.h"

namespace weightfs {

struct ServerState {
  std::string source;                ///< as in /proc/mounts
  std::vector<std::string> sources;  ///< absolute paths, or model names
  std::string place;                 ///< the mount point, or the URL of an HTTP server
  BlobStorePtr store;
  RequestStatistics& statistics;
  Log& log;
  const fuse::Passthrough* passthrough;  ///< null for an HTTP server
  const fuse::Rings* rings = nullptr;    ///< null for an HTTP server
  views::ChecksumsPtr checksums;
  sandbox::SandboxStatus sandbox;
  SharedText incomplete = SharedText("");  ///< what the model lacks; empty if it is complete
  std::function<FollowStatus()> follow_status = {};
  std::function<std::string(Ino)> path_of = {};  ///< the path of an inode in the forest
  timespec since = now();
};

}  // namespace weightfs
