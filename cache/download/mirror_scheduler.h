// When to ask again, and whom: the pauses between tries, and the order of the origins.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cache/download/download.h"
#include "cache/download/origin_info.h"

namespace weightfs {

/// Waits so long; false when `stop` became true meanwhile.
bool rest(std::chrono::milliseconds time, const std::atomic<bool>& stop);

/// The pauses between tries: exponential with full jitter, or what the server asks for.
class Backoff {
 public:
  explicit Backoff(const Patience& patience) : patience_(patience) {}

  /// How long to wait before the next try, after one that ended with `error`; fails with it when there is none.
  Result<std::chrono::milliseconds> pause(const Error& error, std::optional<std::chrono::milliseconds> wanted);
  void reset() { tries_ = 0; }

 private:
  Patience patience_;
  int tries_ = 0;
};

/// Which origin is asked next: each once, in order, before any is asked again; then whoever's pause is over first.
class Turns {
 public:
  using Clock = std::chrono::steady_clock;

  Turns(size_t count, const Patience& patience);

  /// The next, waited for; nothing when none is left, `stop` became true, or none may be asked before `until`.
  std::optional<size_t> next(const std::atomic<bool>& stop, Clock::time_point until = Clock::time_point::max());
  /// It is asked again when its pause is over, if ever.
  void later(size_t origin, const Outcome& outcome);
  /// What failed before its next try is forgotten.
  void went_on(size_t origin) { turns_[origin].backoff.reset(); }
  void give_up(size_t origin, Error error);
  void leave_out(size_t origin) { turns_[origin].over = true; }

  /// How those ended that failed, in their order.
  std::vector<Error> errors() const;

 private:
  struct Turn {
    Backoff backoff;
    Clock::time_point at = Clock::time_point::min();
    bool over = false;
    std::optional<Error> error = {};  // of the last try
  };

  std::vector<Turn> turns_;
};

/// The failures of all origins as one.
Error all_of(const std::string& name, const std::vector<Error>& errors);

}  // namespace weightfs
