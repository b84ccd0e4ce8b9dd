// A bounded queue of buffers between the thread that decodes and the one that hashes and writes.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace weightfs::blobs {

/// One producer thread, one consumer thread.
class BoundedQueue {
 public:
  struct Buffer {
    std::vector<std::byte> bytes;
    size_t filled = 0;
  };

  /// At most `count` buffers of `size` bytes.
  BoundedQueue(size_t count, size_t size) : unallocated_(count), size_(size) {}

  /// For the producer: waits for a free buffer; nothing once the consumer cancelled.
  std::optional<Buffer> acquire_buffer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return cancelled_ || !empty_.empty() || unallocated_ > 0; });
    if (cancelled_) return std::nullopt;
    if (empty_.empty()) {
      --unallocated_;
      return Buffer{std::vector<std::byte>(size_), 0};
    }
    Buffer buffer = std::move(empty_.back());
    empty_.pop_back();
    return buffer;
  }
  void push(Buffer buffer) { put(full_, std::move(buffer)); }
  void close() { set(closed_); }

  /// For the consumer: waits for the next buffer; nothing after the last.
  std::optional<Buffer> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !full_.empty(); });
    if (full_.empty()) return std::nullopt;
    Buffer buffer = std::move(full_.front());
    full_.pop_front();
    return buffer;
  }
  void recycle(Buffer buffer) { put(empty_, std::move(buffer)); }
  void cancel() { set(cancelled_); }

 private:
  void put(std::deque<Buffer>& queue, Buffer buffer) {
    {
      const std::scoped_lock lock(mutex_);
      queue.push_back(std::move(buffer));
    }
    changed_.notify_one();
  }
  void set(bool& flag) {
    {
      const std::scoped_lock lock(mutex_);
      flag = true;
    }
    changed_.notify_one();
  }

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::deque<Buffer> empty_;
  std::deque<Buffer> full_;
  size_t unallocated_;
  size_t size_;
  bool closed_ = false;
  bool cancelled_ = false;
};

}  // namespace weightfs::blobs
