// Serves sources at a mount point until it is unmounted: the common part of `weightfs mount` in the foreground, in the
// background, and as a service.
#pragma once

#include "cli/console/log.h"
#include "cli/exit.h"
#include "cli/mount/mount_point.h"
#include "cli/mount_server/serve_params.h"

namespace weightfs {

/// Opens the sources and serves them at `point`. A failure before the mount is usable is logged as an error, and
/// returned as the exit status. SIGUSR1 writes the statistics to the log.
Exit serve_sources(ServeParams params, MountPoint& point, Log& log);

}  // namespace weightfs
