// The server: accepts connections, and answers the requests on them by a handler.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/os/descriptor.h"
#include "fs/http/server_options.h"
#include "fs/http/workers.h"

namespace weightfs::httpd {

class Session;

/// Serves connections of listening sockets. Connections cost no thread: a few workers wait for all of them with epoll,
/// and a response is continued when its socket takes more bytes.
class Server {
 public:
  /// The sockets must not block.
  Server(std::vector<Descriptor> listeners, ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Starts the workers.
  void start();

  /// Ends what has timed out. To be called every second or so.
  void tick();

  /// Accepts no more connections or requests, and returns when the responses in progress have been sent, or when that
  /// takes longer than `within`; then calls `cancel`, which has to end reads that wait. False if workers still have not
  /// ended after another `within`: the process must exit without the destructor.
  bool stop(std::chrono::milliseconds within, const std::function<void()>& cancel);

  struct Status {
    uint64_t connections;  ///< that are open
    uint64_t accepted;
    uint64_t rejected;  ///< because there were too many
    uint64_t workers;
  };
  Status status() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Listener;

  void* next() const;
  void run(void* what);
  void accept_from(Listener& listener);
  void add(Descriptor socket, Client client);
  void remove(Session& session);
  bool watch(int descriptor, void* what, uint32_t events, bool is_new);

  const ServerOptions options_;
  Descriptor epoll_;
  Descriptor wake_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::atomic<bool> is_stopping_ = false;
  std::atomic<uint64_t> accepted_ = 0;
  std::atomic<uint64_t> rejected_ = 0;
  mutable std::mutex mutex_;  // guards the rest
  std::unordered_map<Session*, std::unique_ptr<Session>> sessions_;
  std::map<std::string, size_t> per_address_;
  std::condition_variable changed_;
  Workers workers_;
};

}  // namespace weightfs::httpd
