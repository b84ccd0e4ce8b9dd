// Mounts sources, in the foreground or in a background process.
#pragma once

#include <string>

#include "cli/exit.h"
#include "cli/mount_server/serve_params.h"

namespace weightfs {

enum class RunMode { foreground, background };

/// Whether the mount point is printed when the mount is usable.
enum class Announce { no, on_stdout };

/// Mounts and serves at `mountpoint`. In the background it returns when the mount is usable, or with the exit status of
/// the failure, which was reported on standard error.
Exit mount_at(ServeParams params, const std::string& mountpoint, RunMode mode, Announce announce = Announce::no);

}  // namespace weightfs
