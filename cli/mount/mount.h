// Mounts sources, in the foreground or in a background process.
#pragma once

#include <string>

#include "cli/mount/serve.h"

namespace weightfs {

enum class RunMode { foreground, background };

/// Mounts and serves at `mountpoint`. In the background it returns when the mount is usable, or with the exit status of
/// the failure, which was reported on standard error.
Exit mount_at(ServeParams params, const std::string& mountpoint, RunMode mode);

}  // namespace weightfs
