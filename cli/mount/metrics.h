// .weightfs/metrics: the numbers of stats.json for Prometheus (exposition format 0.0.4).
#pragma once

#include <string>

namespace weightfs {

struct MountState;

/// Every series has the mount point as a label, so that the files of several mounts can be concatenated.
std::string metrics_of(const MountState& state);

}  // namespace weightfs
