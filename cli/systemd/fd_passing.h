// Passes the descriptor of a mount from the process that mounts to the one that starts the service, over a socket in
// /run. At an automount point only the mount helper, a child of the service manager, can mount; all other processes
// block. But only a process of the service can store a descriptor in the service manager.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/os/descriptor.h"
#include "base/result.h"
#include "cli/process/child_process.h"

namespace weightfs::service {

/// The directory of the sockets and records of services: $RUNTIME_DIRECTORY, else /run/weightfs for root and
/// $XDG_RUNTIME_DIR/weightfs for users.
std::string runtime_directory();

/// The socket of the broker of backing files (weightfs-passthrough.socket): beside that directory, which only root can
/// enter.
std::string broker_path();

/// The sending side, for the service of that name.
class FdSender {
 public:
  /// Fails with io, also if another process is a sender for that name.
  static Result<FdSender> listen(const std::string& name);
  ~FdSender();
  FdSender(FdSender&&) = default;
  FdSender& operator=(FdSender&&) = delete;

  /// Waits for a receiver, and sends it the descriptor returned by `make`. Fails as `make` does, and with io if no
  /// receiver has connected when `start`, which starts the service, has ended, or if the receiver does not acknowledge
  /// the descriptor.
  Result<void> send(const std::function<Result<Descriptor>()>& make, const ChildProcess& start);

 private:
  FdSender(Descriptor lock, std::string path);

  Descriptor lock_;
  Descriptor socket_;
  std::string path_;
};

enum class ReceiveWait { none, for_sender };

/// The receiving side: nothing if there is no sender, now or after a timeout. Fails with io if no descriptor is
/// received.
Result<std::optional<Descriptor>> receive_fd(const std::string& name, ReceiveWait when);

}  // namespace weightfs::service
