// A process beside one that is about to be confined, with the rights that the confined process gives up. It does the
// few things for which these are needed, when it is asked over a socket; it reads no container.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/os/descriptor.h"
#include "base/result.h"

namespace weightfs {

/// What the broker returns.
struct BrokerReply {
  int status = 0;  ///< as the request defines it
  std::string text = {};
  Descriptor descriptor = Descriptor();  ///< passed to the process that asked
};

class Broker {
 public:
  /// In the broker. A request is one letter; its argument is bounded, and is not to be trusted.
  using Handler = std::function<BrokerReply(char request, std::string_view argument)>;

  /// The request that the handler gets last, when the process that asks has ended. Its reply goes nowhere.
  static constexpr char kEnd = 0;

  /// Starts the broker, only while this process has one thread. In the broker only the standard descriptors are open,
  /// its directory is /, and no signal of a terminal ends it. Fails with io.
  static Result<std::unique_ptr<Broker>> start(const Handler& handler);

  /// Ends the broker, and waits for that.
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  /// Asks, and waits for the reply; from any thread. Fails with io where the broker has ended.
  Result<BrokerReply> ask(char request, std::string_view argument = {}) const;

 private:
  Broker(Descriptor socket, pid_t process) : socket_(std::move(socket)), process_(process) {}

  Descriptor socket_;
  const pid_t process_;
  mutable std::mutex mutex_;  // from a request to its reply
};

}  // namespace weightfs
