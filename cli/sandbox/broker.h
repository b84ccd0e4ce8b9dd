// A process with the rights that a confined process gives up. It does the few things that need them on request over a
// socket. It never reads a container.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/descriptor.h"
#include "base/result.h"

namespace weightfs::sandbox {

/// Bytes of a request or a reply; longer ones are cut.
inline constexpr size_t kMaxBrokerMessage = 64 * 1024;

/// The reply of the broker.
struct BrokerReply {
  int status = 0;  ///< as the request defines it
  std::string text = {};
  Descriptor descriptor = Descriptor();  ///< passed to the requesting process
};

class Broker {
 public:
  /// A request: one letter, with a bounded argument and an optional descriptor. It is not trusted.
  struct Request {
    char letter;
    std::string_view argument = {};
    Descriptor descriptor = Descriptor();
  };

  /// Runs in the broker.
  using Handler = std::function<BrokerReply(Request request)>;

  /// The last request to the handler, after the confined process has exited. Its reply is discarded.
  static constexpr char kEnd = 0;

  /// Starts the broker; to be called while this process has one thread. The broker has only the standard descriptors
  /// and those of `kept` open (negative ones are none), its directory is /, and it ignores the signals of a terminal.
  /// `prepare` runs in it before the first request. Fails with io.
  static Result<std::unique_ptr<Broker>> start(
      const Handler& handler, const std::function<void()>& prepare = [] {}, std::vector<int> kept = {});

  /// Connects to a broker that another program started, and that listens at the path of a socket (SOCK_SEQPACKET). A
  /// reply that takes longer than half a minute counts as an exit of the broker. Fails with io.
  static Result<std::unique_ptr<Broker>> connect(const std::string& path);

  /// Turns this process, which must have one thread, into a broker for a connected socket, as start() describes. It
  /// exits when the other end closes the connection.
  [[noreturn]] static void serve(int socket, const Handler& handler, const std::function<void()>& prepare,
                                 std::vector<int> kept = {});

  /// Ends the broker, and waits for its exit if this process started it.
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  /// Sends a request and waits for the reply. Callable from any thread. Fails with io if the broker has exited.
  Result<BrokerReply> ask(char request, std::string_view argument = {}) const;
  /// Sends an open descriptor with the request.
  Result<BrokerReply> ask(char request, int descriptor) const;

 private:
  Result<BrokerReply> exchange(const std::string& request, int descriptor) const;

  Broker(Descriptor socket, pid_t process) : socket_(std::move(socket)), process_(process) {}

  Descriptor socket_;
  const pid_t process_;       // 0: not a child of this process
  mutable std::mutex mutex_;  // from a request to its reply
};

}  // namespace weightfs::sandbox
