// Sections in which a worker of the server may wait for a disk, a server or a container that is parsed.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

namespace weightfs::httpd {

/// How many workers wait, of all that there may be. Workers that wait are replaced, up to a limit, so that some are
/// always free for bytes that are local.
class Waiting {
 public:
  /// `limit`: the maximum that wait at one time. `on_change` is called with the number when it has grown.
  Waiting(size_t limit, std::function<void(size_t)> on_change) : limit_(limit), on_change_(std::move(on_change)) {}

 private:
  friend class MayWait;
  const size_t limit_;
  const std::function<void(size_t)> on_change_;
  std::atomic<size_t> count_ = 0;
};

/// A section of the calling thread.
class MayWait {
 public:
  enum class Kind { yes, no };

  /// Does nothing for Kind::no, in a thread that is no worker, and in a section of its own.
  explicit MayWait(Kind kind) {
    if (kind == Kind::no || current_ == nullptr || is_inside_) return;
    const size_t count = ++current_->count_;
    counted_ = true;
    is_permitted_ = count <= current_->limit_;
    is_inside_ = true;
    if (is_permitted_) current_->on_change_(count);
  }
  ~MayWait() {
    if (!counted_) return;
    --current_->count_;
    is_inside_ = false;
  }
  MayWait(const MayWait&) = delete;
  MayWait& operator=(const MayWait&) = delete;

  /// False if too many workers wait: the work must be refused.
  bool is_permitted() const { return is_permitted_; }

  /// The calling thread is a worker from now on.
  static void begin_worker(Waiting& waiting) { current_ = &waiting; }

 private:
  static inline thread_local Waiting* current_ = nullptr;
  static inline thread_local bool is_inside_ = false;
  bool counted_ = false;
  bool is_permitted_ = true;
};

}  // namespace weightfs::httpd
