// A progress bar for long operations.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

namespace weightfs {

/// The rate of the last seconds. What was done before the first call does not count.
class RecentRate {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kWindow{5};

  /// Records that `done` bytes are done. Returns the bytes per second; 0 at the first call.
  double add(uint64_t done, Clock::time_point now);

 private:
  struct Sample {
    Clock::time_point at;
    uint64_t done;
  };
  std::deque<Sample> samples_;  // the last before the window, and those in it
};

/// A line on standard error that is updated in place, if that is a terminal, at most ten times a second. Thread-safe:
/// an update by one thread is left out while another draws.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Erases the line, so that other output can be printed.
  void clear();

  /// Erases the line, and shows nothing from now on.
  void end();

  /// Whether standard error is a terminal.
  bool is_shown() const { return shown_; }

 protected:
  using Clock = std::chrono::steady_clock;

  /// Draws the line that `text` returns, if it is due at this time, and `after` has passed.
  template <class Text>
  void update(Clock::time_point after, const Text& text) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    const auto now = Clock::now();
    if (lock && shown_ && is_due(now) && now >= after) draw(text(now), now);
  }

 private:
  bool is_due(Clock::time_point now) const;
  void draw(const std::string& line, Clock::time_point now);

  std::mutex mutex_;  // guards the rest, and what the functions of update() use
  std::atomic<bool> shown_;
  bool drawn_ = false;
  Clock::time_point last_ = Clock::now();
};

/// A progress bar.
class ProgressBar : public ProgressLine {
 public:
  /// Shows the bytes done and in total, the recent rate, the remaining time and `what` is processed.
  void show(uint64_t done, uint64_t total, std::string_view what);

 private:
  RecentRate rate_;
};

/// A number of files, "opening 12 of 400 files": shown when they take more than a second.
class FileCounter : public ProgressLine {
 public:
  /// Erases the line when all are done.
  void show(uint64_t done, uint64_t total);

 private:
  std::atomic<Clock::time_point> begin_ = Clock::now();
};

}  // namespace weightfs
