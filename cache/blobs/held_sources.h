// What a blob is decoded from, held open while it is decoded: a compressed archive in an archive is read seldom, and
// must not be decoded from its beginning each time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace weightfs {

/// Callable from any thread.
class HeldSources {
 public:
  using Hold = std::function<std::shared_ptr<const void>()>;

  /// Holds what is known by that name, unless it is held already.
  void add(const std::string& name, const Hold& hold) {
    const std::scoped_lock lock(mutex_);
    if (!held_.contains(name)) held_.emplace(name, hold());
  }

  void clear() {
    decltype(held_) last;  // let go without the lock
    const std::scoped_lock lock(mutex_);
    last.swap(held_);
  }

  /// While it lives, what the calling thread reads is added to `sources`, unless that is null.
  class Scope {
   public:
    explicit Scope(HeldSources* sources) : outer_(std::exchange(current_, sources != nullptr ? sources : current_)) {}
    ~Scope() { current_ = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    HeldSources* outer_;
  };

  static void add_to_current(const std::string& name, const Hold& hold) {
    if (current_ != nullptr) current_->add(name, hold);
  }

 private:
  static inline thread_local HeldSources* current_ = nullptr;

  std::mutex mutex_;  // guards the next
  std::map<std::string, std::shared_ptr<const void>> held_;
};

}  // namespace weightfs
