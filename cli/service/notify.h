// The service manager of systemd: what it is told (sd_notify(3)), and the descriptors that it keeps for a service
// (sd_pid_notify_with_fds(3), sd_listen_fds(3)). Where there is none, telling it does nothing.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.h"

namespace weightfs {

/// Tells it lines such as READY=1, STATUS=... Never waits for an answer. Callable from any thread.
void notify(const std::string& lines);

/// Tells it that the configuration is read again; notify("READY=1") says that it has been.
void notify_reloading();

/// Lets it keep `descriptor` under `name` for the service's next process, and returns once it does. Fails with io when
/// there is no service manager.
Result<void> keep_descriptor(int descriptor, const std::string& name);

/// Lets it close what it keeps under `name`, if anything, and returns once that is done.
void forget_descriptor(const std::string& name);

/// The descriptor that it kept under `name` and handed to this process; nothing when there is none. All others that it
/// handed over are closed. To be asked once.
std::optional<int> kept_descriptor(const std::string& name);

/// How long it waits for WATCHDOG=1 before it takes this process for hung; nothing when it does not look.
std::optional<std::chrono::microseconds> watchdog_limit();

}  // namespace weightfs
