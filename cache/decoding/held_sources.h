// Keeps the sources of a blob open while it is decoded: a compressed archive in an archive is read rarely, and must not
// be decoded from its start each time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace weightfs::blobs {

/// Thread-safe.
class HeldSources {
 public:
  using Hold = std::function<std::shared_ptr<const void>()>;

  /// Holds the source of that name, unless it is held already.
  void add(const std::string& name, const Hold& hold) {
    const std::scoped_lock lock(mutex_);
    if (!held_.contains(name)) held_.emplace(name, hold());
  }

  /// While it exists, sources that the calling thread reads are added to `sources`, unless that is null.
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

}  // namespace weightfs::blobs
