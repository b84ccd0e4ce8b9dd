// .weightfs/metrics: the same numbers as stats.json, for Prometheus (exposition format 0.0.4).
#pragma once

#include <string>

namespace weightfs {

struct Mounted;

/// Every series carries the mount point, so that the files of several mounts can be put together.
std::string metrics_of(const Mounted& mounted);

}  // namespace weightfs
