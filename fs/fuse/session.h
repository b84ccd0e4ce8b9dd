// A FUSE session: mounts a Forest and serves the requests of the kernel. It makes no decisions about the content.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "base/result.h"
#include "fs/fuse/session_params.h"

namespace weightfs::fuse {

/// How long a shutdown waits for pending requests.
inline constexpr std::chrono::seconds kShutdownTimeout{5};

/// Sets the read-ahead of the mount with that device number to kReadaheadKiB, if permitted (to root).
void set_readahead(dev_t device);

/// "3.14.0": the version of libfuse.
const char* library_version();

/// The options of the mount as libfuse and fusermount3 take them: joined by commas, with `\` in front of those in the
/// source.
std::string mount_options(const SessionParams& params);

/// Mounts on `target`, the mount point or another path of it, and returns the descriptor for SessionParams::device,
/// which the caller closes. Does not serve. Fails with io.
Result<int> open_mount(const SessionParams& params, const std::string& target);

/// Mounts `forest` and serves it until it is unmounted, or until SIGINT, SIGTERM or SIGHUP, and then unmounts it.
/// SIGHUP from the kernel, of a terminal that was closed, ends the mount even if it has a callback. `statistics` counts
/// the requests. Fails with io if mounting fails.
Result<void> serve(Forest& forest, RequestStatistics& statistics, const SessionParams& params);

}  // namespace weightfs::fuse
