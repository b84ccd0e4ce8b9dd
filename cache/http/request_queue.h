// When requests are sent: so many at a time to one origin, those first that a reader waits for, and none to an origin
// that wants to be left alone for a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "cache/http/request.h"

namespace weightfs::http {

/// Thread-safe. A response 429 or 503 closes its origin for the delay that it requests; then the origin gets one
/// request at a time, and one more for each that is answered otherwise. A request holds its turn for one exchange:
/// none waits for another turn meanwhile.
class RequestQueue {
  struct Origin;

 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::hours kMaxClosed{1};   ///< after that, a request asks again
  static constexpr size_t kMaxPassed = 16;             ///< requests of readers that may pass one that is ahead of them
  static constexpr size_t kMaxOrigins = 256;           ///< that are remembered without a request
  static constexpr std::chrono::seconds kWaitNews{1};  ///< between calls of Entrant::on_wait

  /// `connections`: requests to one origin at a time; 0: any number.
  explicit RequestQueue(size_t connections, std::function<Clock::time_point()> now = &Clock::now);
  ~RequestQueue();
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  /// The right to send one request; ends with the object. The queue must outlive it.
  class Turn {
   public:
    Turn(RequestQueue& queue, Origin& origin);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /// The response has arrived, its body perhaps not.
    void record(int status, std::optional<std::chrono::milliseconds> requested_delay);

   private:
    RequestQueue& queue_;
    Origin& origin_;
    uint64_t era_ = 0;
  };

  /// A request that wants a turn.
  struct Entrant {
    const std::string& origin;  ///< "https://example.com:443"
    Urgency urgency = Urgency::waited_for;
    Clock::time_point deadline = Clock::time_point::max();
    const std::stop_token& stop;
    /// Called while it waits, each kWaitNews, without a lock; ends the wait by failing. May be null.
    std::function<Result<void>()> on_wait = {};
  };

  struct Admission {
    std::unique_ptr<Turn> turn = nullptr;  ///< null: the origin is closed; the request must not be sent
    int status = 0;                        ///< which closed it
    std::chrono::milliseconds left{};      ///< until it opens, rounded up
  };

  /// Waits for a turn; ends at once while the origin is closed. Fails with network after the deadline and when `stop`
  /// is set, and as on_wait does.
  Result<Admission> enter(const Entrant& entrant);

  /// Requests that wait, for tests.
  size_t waiting() const;

 private:
  struct Waiter {
    Urgency urgency;
    size_t passed = 0;  // by requests of readers
  };

  struct Origin {
    std::list<Waiter> waiting = {};  // in the order of their turns
    size_t running = 0;
    uint64_t era = 0;           // counts the times that it was closed or busy
    size_t running_in_era = 0;  // of `running`, begun in this era
    size_t limit = SIZE_MAX;    // of these
    int status = 0;             // of the response that closed it
    Clock::time_point opens{};
  };

  static std::list<Waiter>::iterator join(Origin& origin, Urgency urgency);
  std::chrono::milliseconds left(const Origin& origin) const;
  bool has_room(const Origin& origin) const;
  Result<bool> wait(std::unique_lock<std::mutex>& lock, const Origin& origin, std::list<Waiter>::const_iterator place,
                    const Entrant& entrant);
  void forget_idle();

  const size_t connections_;
  const std::function<Clock::time_point()> now_;
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable_any changed_;
  std::map<std::string, Origin> origins_;
};

}  // namespace weightfs::http
