// How many decode at once: each takes a decoder's window and buffers.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>

namespace weightfs {

/// Callable from any thread. First come, first served.
class Permits {
 public:
  /// When nothing is decoded for so long although somebody waits, those who have permits may be waiting for a lock of
  /// whoever waits for one. Then there is one more.
  static constexpr std::chrono::seconds kStandstill{2};

  explicit Permits(int count) : left_(count) {}

  std::atomic<int> publishing = 0;  ///< so many are proved, and get their names at the moment

  /// Waits for one; false, without it, when told to stop before. Whoever tells a waiting one to stop calls look().
  bool take(const std::atomic<bool>& stop) {
    std::unique_lock lock(mutex_);
    const auto turn = queue_.insert(queue_.end(), std::this_thread::get_id());
    bool had = false;
    const auto may_go_on = [&] { return stop || (had = turn == queue_.begin() && left_ > 0); };
    uint64_t before = steps_;
    while (!changed_.wait_for(lock, kStandstill, may_go_on)) {
      const uint64_t now = steps_;
      if (now == before && turn == queue_.begin()) {
        had = true;
        break;
      }
      before = now;
    }
    queue_.erase(turn);
    if (had) --left_;
    changed_.notify_all();
    return had;
  }
  void give_back() {
    const std::scoped_lock lock(mutex_);
    ++left_;
    ++steps_;
    changed_.notify_all();
  }
  void look() {
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
  }

  /// Says that something was decoded.
  void step() { ++steps_; }
  /// How often that was said, and a permit given back.
  uint64_t steps() const { return steps_; }

 private:
  std::atomic<uint64_t> steps_ = 0;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::list<std::thread::id> queue_;
  int left_;  // below 0 after a standstill
};

}  // namespace weightfs
