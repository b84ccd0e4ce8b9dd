// Long computations whose progress is sent while they run (server-sent events, WHATWG HTML, section 9.2).
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "serve/api/query.h"
#include "serve/api/results.h"

namespace weightfs::api {

/// What has been done of a computation: bytes, and a text.
using Report = std::function<void(const char* what, uint64_t done, uint64_t total)>;
using Compute = std::function<Accepted<ContentPtr>(const Report&)>;

/// The computations in progress. Only a few of them read at a time.
class Jobs {
 public:
  explicit Jobs(size_t at_once) : at_once_(at_once) {}
  ~Jobs() { stop(); }
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  /// Computes in the calling thread. Refuses with 503 when it is cancelled.
  Accepted<ContentPtr> run(const Compute& compute);

  /// Computes in a thread of its own: a response of events. The computation is cancelled when the response is
  /// destroyed, because its client has gone. Refuses with 503 if there are too many.
  Accepted<httpd::Response> stream(Compute compute);

  /// Cancels all of them, and returns when they have ended.
  void stop();

 private:
  static constexpr size_t kMaxStreams = 64;

  struct Stream;
  struct Thread {
    std::shared_ptr<Stream> stream;
    std::thread thread;
  };

  Accepted<ContentPtr> compute_in_turn(const Compute& compute, const Report& report);
  bool wait_for_turn();
  void end_turn();
  void remove_ended();

  const size_t at_once_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  size_t running_ = 0;
  bool is_stopping_ = false;
  std::list<Thread> threads_;
};

}  // namespace weightfs::api
