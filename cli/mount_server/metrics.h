// .weightfs/metrics: the numbers of stats.json for Prometheus (exposition format 0.0.4).
#pragma once

#include <string>

#include "cli/mount_server/server_state.h"

namespace weightfs {

/// Every series has the mount point as a label, so that the files of several mounts can be concatenated.
std::string metrics_of(const ServerState& state);

}  // namespace weightfs
