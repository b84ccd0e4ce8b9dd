// One line on a terminal that says how far a long work is.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace weightfs {

/// Written over again and again on standard error, when that is a terminal; gone when the work is done. One thread at a
/// time.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows bytes done of those to be done, at what rate, how long it will take, and what is worked at; at most ten
  /// times a second. What was there when the work began (`before`) says nothing about the rate.
  void show(uint64_t done, uint64_t whole, std::string_view what, uint64_t before = 0);

  /// Takes the line away, so that something else may be printed.
  void clear();

  /// Whether there is a terminal to show it on.
  bool is_shown() const { return shown_; }

 private:
  using Clock = std::chrono::steady_clock;

  bool shown_;
  bool drawn_ = false;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
};

}  // namespace weightfs
