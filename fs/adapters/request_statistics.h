// Statistics of the requests to a server, a mount or an HTTP server: the source of .weightfs/stats.json and metrics.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weightfs {

/// A lock-free histogram of durations, in steps of a quarter of a power of two, from a nanosecond to an hour. Callable
/// from any thread.
class LatencyHistogram {
 public:
  static constexpr size_t kSteps = 42 * 4;

  void add(std::chrono::nanoseconds took);

  /// A copy of the counts.
  class Snapshot {
   public:
    uint64_t count() const;
    /// The duration that this share (0 to 1) did not exceed, as the upper end of its step; 0 if empty.
    std::chrono::nanoseconds percentile(double share) const;
    /// The number of durations below 2^power nanoseconds.
    uint64_t below_power(size_t power) const;

   private:
    friend class LatencyHistogram;
    std::array<uint64_t, kSteps> steps_{};
  };
  Snapshot snapshot() const;

 private:
  std::array<std::atomic<uint64_t>, kSteps> steps_{};
};

/// Callable from any thread.
class RequestStatistics {
  struct Counters {
    std::atomic<uint64_t> errors = 0;
    std::atomic<uint64_t> longest_ns = 0;
    std::atomic<uint64_t> total_ns = 0;
    LatencyHistogram took;

    void add(std::chrono::nanoseconds duration, bool failed);
  };

 public:
  using Clock = std::chrono::steady_clock;

  /// `operations`: the names of the kinds of requests, which are numbered in this order.
  explicit RequestStatistics(std::span<const std::string_view> operations)
      : operations_(operations), counters_(operations.size()) {}

  /// Measures one request, from its arrival to its reply.
  class Request {
   public:
    template <class Operation>
    Request(RequestStatistics& statistics, Operation operation)
        : statistics_(statistics), counters_(statistics.counters_[static_cast<size_t>(operation)]) {
      statistics_.active_requests_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Request();
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;

    void failed() { failed_ = true; }

   private:
    RequestStatistics& statistics_;
    Counters& counters_;
    Clock::time_point begin_ = Clock::now();
    bool failed_ = false;
  };

  /// Count the arrival and the end of a request that is measured elsewhere.
  void begin() { active_requests_.fetch_add(1, std::memory_order_relaxed); }
  void end(size_t operation, std::chrono::nanoseconds took, bool failed) {
    counters_[operation].add(took, failed);
    active_requests_.fetch_sub(1, std::memory_order_release);
  }

  /// Counts bytes returned to readers.
  void add_bytes_read(uint64_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  /// Counts an opened or closed file.
  void opened() {
    used();
    open_files_.fetch_add(1, std::memory_order_relaxed);
  }
  void closed() {
    used();
    open_files_.fetch_sub(1, std::memory_order_relaxed);
  }
  /// Records a use of the mount: a lookup, listing or open, except below .weightfs/.
  void used() { last_use_.store(Clock::now(), std::memory_order_relaxed); }

  /// The statistics of one kind of request.
  struct OperationStats {
    uint64_t errors;
    LatencyHistogram::Snapshot took;
    std::chrono::nanoseconds longest;
    std::chrono::nanoseconds total;
  };
  OperationStats stats(size_t operation) const;
  std::span<const std::string_view> operations() const { return operations_; }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  /// The requests that have arrived and are not in stats() yet.
  uint64_t requests_in_flight() const { return active_requests_.load(std::memory_order_acquire); }
  uint64_t open_files() const { return open_files_.load(std::memory_order_relaxed); }
  /// The time since the last use; 0 while a file is open or a request is pending.
  Clock::duration idle_time() const;

 private:
  const std::span<const std::string_view> operations_;
  std::vector<Counters> counters_;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> open_files_ = 0;
  std::atomic<uint64_t> active_requests_ = 0;
  std::atomic<Clock::time_point> last_use_ = Clock::now();
};

}  // namespace weightfs
