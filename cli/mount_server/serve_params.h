// What a mount serves, and how.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/mount/mount_options.h"
#include "cli/mount_server/server_state.h"

namespace weightfs {

/// Hooks into the life of a mount. Called one at a time.
struct MountObserver {
  std::function<void(const ServerState&)> on_usable = {};  ///< when the mount is usable
  std::function<void(const ServerState&)> on_tick = {};    ///< every tick_every, unless that is 0
  std::chrono::milliseconds tick_every{0};
  /// Called on SIGHUP, which otherwise ends the mount. Only a change of the idle timeout takes effect among the
  /// options; the log level is set on the Log.
  std::function<void(MountOptions&)> on_reload = {};
  std::vector<std::string> reload_reads = {};  ///< files and directories that on_reload reads; the sandbox allows them
  std::function<void()> on_end = {};           ///< when a signal ends the mount
};

struct ServeParams {
  std::vector<std::string> sources;
  MountOptions options;
  std::optional<int> device = {};  ///< see SessionParams::device
  std::string broker_path = {};    ///< the socket of the broker of backing files, if there is a device
  MountObserver observer = {};
};

}  // namespace weightfs
