// The broker of backing files: a process that keeps CAP_SYS_ADMIN, which the server gives up. It registers files that
// the server has open with the kernel, for passthrough, and does nothing else. A server that never had the capability
// (weightfs@.service) connects to a broker that the service manager starts (weightfs-passthrough@.service).
#pragma once

#include <memory>
#include <mutex>

#include "base/result.h"
#include "cli/sandbox/broker.h"
#include "fs/fuse/passthrough.h"

namespace weightfs {

class BackingBroker final : public fuse::BackingFiles {
 public:
  /// Starts the process, which ends with this one. To be called while this process has one thread. Fails with io.
  static Result<fuse::BackingFilesPtr> start();

  /// Connects to a broker at the path of a socket. To be called before the sandbox is entered. Fails with io; the
  /// message is the reason.
  static Result<fuse::BackingFilesPtr> connect(const std::string& path);

  /// Turns this process into the broker for a server that has connected. It exits with the connection, and with status
  /// 1 if it cannot be confined.
  [[noreturn]] static void serve(int connection);

  Result<void> start(int device) override;
  Result<uint32_t> open(int file) override;
  void close(uint32_t id) override;
  void stop() override;

 private:
  explicit BackingBroker(std::unique_ptr<sandbox::Broker> broker) : broker_(std::move(broker)) {}

  Result<int> ask(char request, int descriptor);

  std::mutex mutex_;  // guards the rest
  std::unique_ptr<sandbox::Broker> broker_;
  int device_ = -1;  // of the mount, once start() was called
};

}  // namespace weightfs
