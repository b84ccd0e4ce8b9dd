// A bounded queue of buffers between the thread that decodes and the one that hashes and writes.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace weightfs::blobs {

/// One producer thread, one consumer thread. Buffers are reused: two in the queue, one with each thread.
class BoundedQueue {
 public:
  struct Buffer {
    std::vector<std::byte> bytes = {};  ///< empty before the first use
    size_t filled = 0;
  };

  /// For the producer: waits for space, and exchanges a filled buffer for one to fill. False once it is closed.
  bool push(Buffer& buffer) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || count_ < queued_.size(); });
    if (closed_) return false;
    std::swap(buffer, queued_[(first_ + count_++) % queued_.size()]);
    changed_.notify_one();
    return true;
  }

  /// For the consumer: waits for the next buffer, and exchanges the previous one for it. False once the queue is closed
  /// and empty.
  bool pop(Buffer& buffer) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || count_ > 0; });
    if (count_ == 0) return false;
    std::swap(buffer, queued_[first_]);
    first_ = (first_ + 1) % queued_.size();
    --count_;
    changed_.notify_one();
    return true;
  }

  /// From now on push() returns false, and so does pop() once the queue is empty.
  void close() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::array<Buffer, 2> queued_;  // from `first_` on; the others are to be filled again
  size_t first_ = 0;
  size_t count_ = 0;
  bool closed_ = false;
};

}  // namespace weightfs::blobs
