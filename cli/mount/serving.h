// Serving sources at a mount point, until it is unmounted: what `weightfs mount` does, in the foreground, in the
// background, and as a service.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/console/log.h"
#include "cli/exit.h"
#include "cli/mount/mount_options.h"
#include "cli/mount/mount_point.h"
#include "cli/mount/status.h"

namespace weightfs {

/// A mount as those see it who look after it while it is served. Called one at a time.
struct Watch {
  std::function<void(const Mounted&)> on_usable = {};  ///< once it can be used
  std::function<void(const Mounted&)> on_tick = {};    ///< again and again, where tick_every is not 0
  std::chrono::milliseconds tick_every{0};
  /// SIGHUP, which ends the mount where this is not given. What it changes in the options while the mount goes on: the
  /// idle timeout; the log's level is the log's.
  std::function<void(MountOptions&)> on_reload = {};
  std::vector<std::string> reload_reads = {};  ///< files and directories that on_reload reads; the sandbox allows them
  std::function<void()> on_end = {};           ///< a signal ends the mount
};

struct Serving {
  std::vector<std::string> sources;
  MountOptions options;
  std::optional<int> device = {};  ///< see Mounting::device
  Watch watch = {};
};

/// Opens the sources and serves them at `point`. What goes wrong before it can be used is said on standard error as
/// well, and is the status. SIGUSR1 makes it say its statistics.
Exit serve_sources(Serving serving, MountPoint& point, Log& log);

}  // namespace weightfs
