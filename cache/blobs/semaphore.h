// Limits the number of concurrent decoders, each of which needs a window and buffers.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <stop_token>
#include <thread>

namespace weightfs::blobs {

/// A fair semaphore (first come, first served). Thread-safe.
class Semaphore {
 public:
  /// Without progress for this long while a thread waits, the permit holders may be waiting for a lock that the waiting
  /// thread holds. Then one additional permit is granted to break the deadlock.
  static constexpr std::chrono::seconds kStallTimeout{2};

  explicit Semaphore(int count) : available_(count) {}

  std::atomic<int> publishing = 0;  ///< verified blobs that are being published

  /// Waits for a permit; false without one when `stop` is requested first.
  bool acquire(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    const auto position = queue_.insert(queue_.end(), std::this_thread::get_id());
    const auto is_next = [&] { return position == queue_.begin() && available_ > 0; };
    bool acquired = false;
    uint64_t before = progress_count_;
    while (!(acquired = changed_.wait_for(lock, stop, kStallTimeout, is_next)) && !stop.stop_requested()) {
      const uint64_t now = progress_count_;
      if (now == before && position == queue_.begin()) {
        acquired = true;
        break;
      }
      before = now;
    }
    queue_.erase(position);
    if (acquired) --available_;
    changed_.notify_all();
    return acquired;
  }
  void release() {
    const std::scoped_lock lock(mutex_);
    ++available_;
    ++progress_count_;
    changed_.notify_all();
  }

  /// Records that a decoder made progress.
  void note_progress() { ++progress_count_; }
  /// The number of progress records and released permits.
  uint64_t progress_count() const { return progress_count_; }

 private:
  std::atomic<uint64_t> progress_count_ = 0;
  std::mutex mutex_;  // guards the rest
  std::condition_variable_any changed_;
  std::list<std::thread::id> queue_;
  int available_;  // negative after a deadlock was broken
};

}  // namespace weightfs::blobs
