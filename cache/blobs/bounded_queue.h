// Between the thread that decodes and the one that hashes and writes: a few buffers, so that both work at once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace weightfs {

/// One thread fills, one empties.
class Pipe {
 public:
  struct Buffer {
    std::vector<std::byte> bytes;
    size_t filled = 0;
  };

  /// At most `count` buffers of `size` bytes.
  Pipe(size_t count, size_t size) : left_(count), size_(size) {}

  /// For the one that fills: a buffer, waited for; nothing once the other gave up.
  std::optional<Buffer> take_empty() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return given_up_ || !empty_.empty() || left_ > 0; });
    if (given_up_) return std::nullopt;
    if (empty_.empty()) {
      --left_;
      return Buffer{std::vector<std::byte>(size_), 0};
    }
    Buffer buffer = std::move(empty_.back());
    empty_.pop_back();
    return buffer;
  }
  void put_full(Buffer buffer) { put(full_, std::move(buffer)); }
  void end() { set(ended_); }

  /// For the one that empties: the next, waited for; nothing after the last.
  std::optional<Buffer> take_full() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || !full_.empty(); });
    if (full_.empty()) return std::nullopt;
    Buffer buffer = std::move(full_.front());
    full_.pop_front();
    return buffer;
  }
  void put_empty(Buffer buffer) { put(empty_, std::move(buffer)); }
  void give_up() { set(given_up_); }

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
  size_t left_;
  size_t size_;
  bool ended_ = false;
  bool given_up_ = false;
};

}  // namespace weightfs
