// The limit of --limit-rate: how long bytes wait, so that all transfers of a process together are not faster.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace weightfs::http {

/// A token bucket. Thread-safe.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  /// What an idle limit saves up: a transfer that begins has this time's bytes at once.
  static constexpr std::chrono::milliseconds kBurst{100};

  /// `rate`: bytes per second, not 0.
  explicit RateLimit(uint64_t rate) : rate_(static_cast<double>(rate)) {}

  /// Counts bytes that have arrived at `now`; returns how long they wait. Callers get their turns in the order of their
  /// calls.
  Clock::duration reserve(uint64_t bytes, Clock::time_point now) {
    const std::chrono::duration<double> time(static_cast<double>(bytes) / rate_);
    const std::scoped_lock lock(mutex_);
    due_ = std::max(due_, now - kBurst) + std::chrono::duration_cast<Clock::duration>(time);
    return std::max(due_ - now, Clock::duration::zero());
  }

 private:
  const double rate_;
  std::mutex mutex_;       // guards the rest
  Clock::time_point due_;  // when all bytes so far may have been passed on
};

}  // namespace weightfs::http
