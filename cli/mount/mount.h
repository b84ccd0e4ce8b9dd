// Making a mount, in the foreground or with a process of its own in the background.
#pragma once

#include <string>

#include "cli/mount/serving.h"

namespace weightfs {

enum class Stay { foreground, background };

/// Serves at `mountpoint`. In the background it returns when the mount can be used, or with the status of what kept it
/// from that, which was said on standard error.
Exit mount_at(Serving serving, const std::string& mountpoint, Stay stay);

}  // namespace weightfs
