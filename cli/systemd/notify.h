// The protocol with the service manager: notifications (sd_notify(3), section "Well-known assignments") and stored
// descriptors (sd_pid_notify_with_fds(3), sd_listen_fds(3)). Not by libsystemd, which loads four other libraries.
// Without a service manager notifications do nothing.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace weightfs::service {

/// Sends lines such as READY=1 or STATUS=... Does not wait for a reply. Callable from any thread.
void notify(const std::string& lines);

/// Notifies that a reload has begun; notify("READY=1") ends it.
void notify_reloading();

/// Stores `descriptor` under `name` for the service's next process, and returns when it is stored. Fails with io
/// without a service manager.
Result<void> keep_descriptor(int descriptor, const std::string& name);

/// Removes the descriptor stored under `name`, if any, and returns when that is done.
void forget_descriptor(const std::string& name);

/// All descriptors that the service manager passed to this process, which stay for the next three functions.
std::vector<int> passed_descriptors();

/// The descriptor stored under `name` and passed to this process, if any. Closes all other passed descriptors. To be
/// called once.
std::optional<int> kept_descriptor(const std::string& name);

/// The connection (SOCK_SEQPACKET) that the service manager accepted for this process (Accept=yes, systemd.socket(5)),
/// if any. Closes all other passed descriptors. To be called once.
std::optional<int> accepted_connection();

/// The listening sockets (SOCK_STREAM) that the service manager passed to this process. Closes all other passed
/// descriptors. To be called once.
std::vector<int> listening_descriptors();

/// The watchdog timeout of the service; nothing without a watchdog.
std::optional<std::chrono::microseconds> watchdog_limit();

}  // namespace weightfs::service
