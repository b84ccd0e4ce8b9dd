// A progress bar for long operations.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>

namespace weightfs {

/// The rate of the last seconds. What was done before the first call does not count.
class RecentRate {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kWindow{5};

  /// So many bytes are done by now. Returns the bytes per second; 0 at the first call.
  double add(uint64_t done, Clock::time_point now);

 private:
  struct Sample {
    Clock::time_point at;
    uint64_t done;
  };
  std::deque<Sample> samples_;  // the last before the window, and those in it
};

/// A line on standard error that is updated in place, if that is a terminal, and erased at the end. For one thread at a
/// time.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows the bytes done and in total, the recent rate, the remaining time and `what` is processed; at most ten times
  /// a second.
  void show(uint64_t done, uint64_t total, std::string_view what);

  /// Erases the line, so that other output can be printed.
  void clear();

  /// Whether standard error is a terminal.
  bool is_shown() const { return shown_; }

 private:
  using Clock = std::chrono::steady_clock;

  bool shown_;
  bool drawn_ = false;
  Clock::time_point last_ = Clock::now();
  RecentRate rate_;
};

/// A progress bar for several threads: a call returns at once while another thread draws.
class SharedProgressBar {
 public:
  void show(uint64_t done, uint64_t total, std::string_view what) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) bar_.show(done, total, what);
  }

  void clear() {
    const std::scoped_lock lock(mutex_);
    bar_.clear();
  }

 private:
  std::mutex mutex_;  // guards the bar
  ProgressBar bar_;
};

/// A ProgressBar for a number of files, "opening 12 of 400 files": shown when they take more than a second.
/// Thread-safe.
class FileCounter {
 public:
  FileCounter();
  ~FileCounter() { end(); }
  FileCounter(const FileCounter&) = delete;
  FileCounter& operator=(const FileCounter&) = delete;

  /// Erases the line when all are done.
  void show(uint64_t done, uint64_t total);

  /// Erases the line, so that other output can be printed.
  void clear();

  /// Erases the line, and shows nothing from now on.
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;  // guards the rest
  bool shown_;
  bool drawn_ = false;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_{};
};

}  // namespace weightfs
