// Retry delays, and the order in which mirrors are tried.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cache/download/origin.h"
#include "cache/download/response.h"

namespace weightfs::download {

/// Sleeps; returns false early when `stop` is set or the work of the thread is cancelled (polled ten times a second).
bool interruptible_sleep(std::chrono::milliseconds time, const std::stop_token& stop);

/// Retry delays: exponential with full jitter, or as requested by the server, and never less than it requests. Errors
/// of the network are retried for http::Client::patience() at least, unless the policy does not wait.
class Backoff {
 public:
  enum class Attempt { sent, deferred };  ///< see http::Response::is_deferred

  Backoff(const RetryPolicy& policy, http::Client& http) : policy_(policy), http_(http) {}

  /// The delay before the next attempt after `error`; fails with `error` when no attempts are left, or `requested` is
  /// longer than what is waited for.
  /// A request that was deferred, and so not sent, is no attempt the first time.
  Result<std::chrono::milliseconds> pause(const Error& error, std::optional<std::chrono::milliseconds> requested,
                                          Attempt attempt = Attempt::sent);
  /// Waits that long, as interruptible_sleep() does.
  bool wait(const Error& error, std::chrono::milliseconds time, const std::stop_token& stop) const;
  void reset() {
    attempts_ = 0;
    was_deferred_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;

  RetryPolicy policy_;
  http::Client& http_;
  int attempts_ = 0;
  bool was_deferred_ = false;
  bool is_outage_ = false;   // as http::Waiting::is_outage
  Clock::time_point since_;  // of the first failure
};

/// Selects the next origin: each one once, from `first` on; then the one whose delay ends first.
class MirrorScheduler {
 public:
  using Clock = std::chrono::steady_clock;

  MirrorScheduler(size_t count, const RetryPolicy& policy, http::Client& http, size_t first = 0);

  /// Waits for the next origin; nothing when none is left, none is due before `until`, or the sleep ends early.
  std::optional<size_t> next(const std::stop_token& stop, Clock::time_point until = Clock::time_point::max());
  /// Schedules a retry after a delay, if the outcome asks for one and any attempts are left. Returns the failure of an
  /// origin whose attempts are used up.
  std::optional<Error> failed(size_t origin, const Outcome& outcome);
  /// Call after progress: forgets earlier failures.
  void reset_backoff(size_t origin) { mirrors_[origin].backoff.reset(); }
  void exclude(size_t origin) { mirrors_[origin].at = kNever; }

  /// The last error of each failed origin, in their order.
  std::vector<Error> errors() const;

 private:
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  struct Mirror {
    Backoff backoff;
    Clock::time_point at = Clock::time_point::min();  // of the next attempt
    std::optional<Error> error = {};                  // of the last attempt
  };

  std::vector<Mirror> mirrors_;
};

/// Combines the errors of all origins. `name` may be empty.
Error combined_error(const std::string& name, const std::vector<Error>& errors);

}  // namespace weightfs::download
