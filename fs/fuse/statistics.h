// What a mount was asked and how fast it answered: what .weightfs/stats.json and metrics tell.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace weightfs {

/// The requests of the kernel that are answered, as FUSE calls them.
enum class Operation : uint8_t {
  lookup,
  getattr,
  readlink,
  open,
  read,
  release,
  readdir,
  readdirplus,
  statfs,
  getxattr,
  listxattr,
};

inline constexpr std::array kOperationNames = {"lookup",  "getattr",     "readlink", "open",     "read",     "release",
                                               "readdir", "readdirplus", "statfs",   "getxattr", "listxattr"};

/// How long something took, how often: in steps of a quarter of a power of two, from a nanosecond to an hour. Callable
/// from any thread, and never waits.
class Durations {
 public:
  static constexpr size_t kSteps = 42 * 4;

  void add(std::chrono::nanoseconds took);

  /// The counts at one moment.
  class Counted {
   public:
    uint64_t count() const;
    /// The time that this share (0 to 1) of them did not exceed, as the step's upper end; 0 when there are none.
    std::chrono::nanoseconds percentile(double share) const;
    /// How many took less than 2^power nanoseconds.
    uint64_t below_power(size_t power) const;

   private:
    friend class Durations;
    std::array<uint64_t, kSteps> steps_{};
  };
  Counted counted() const;

 private:
  std::array<std::atomic<uint64_t>, kSteps> steps_{};
};

/// Callable from any thread.
class Statistics {
 public:
  using Clock = std::chrono::steady_clock;

  /// One request, from its arrival to its answer.
  class Request {
   public:
    Request(Statistics& statistics, Operation operation);
    ~Request();
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;

    void failed() { failed_ = true; }

   private:
    Statistics& statistics_;
    Operation operation_;
    Clock::time_point begin_ = Clock::now();
    bool failed_ = false;
  };

  /// Bytes of files were given to readers.
  void gave(uint64_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  /// A file was opened, or closed.
  void opened() {
    used();
    open_files_.fetch_add(1, std::memory_order_relaxed);
  }
  void closed() {
    used();
    open_files_.fetch_sub(1, std::memory_order_relaxed);
  }
  /// Somebody uses the mount: looks for a name, lists or opens something, other than what the mount says of itself.
  void used() { last_use_.store(Clock::now(), std::memory_order_relaxed); }

  /// What is known of one kind of request.
  struct Answered {
    uint64_t errors;
    Durations::Counted took;
    std::chrono::nanoseconds longest;
    std::chrono::nanoseconds together;
  };
  Answered answered(Operation operation) const;
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t open_files() const { return open_files_.load(std::memory_order_relaxed); }
  /// How long nobody has used the mount: nothing is open, and no request is being answered.
  Clock::duration unused() const;

 private:
  struct Kind {
    std::atomic<uint64_t> errors = 0;
    std::atomic<uint64_t> longest_ns = 0;
    std::atomic<uint64_t> together_ns = 0;
    Durations took;
  };

  std::array<Kind, kOperationNames.size()> kinds_;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> open_files_ = 0;
  std::atomic<uint64_t> under_way_ = 0;
  std::atomic<Clock::time_point> last_use_ = Clock::now();
};

}  // namespace weightfs
