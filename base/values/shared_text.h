// A text of several threads.
#pragma once

#include <mutex>
#include <string>
#include <utility>

namespace weightfs {

/// A text that some threads replace while others read it.
class SharedText {
 public:
  explicit SharedText(std::string text) : text_(std::move(text)) {}
  std::string get() const {
    const std::scoped_lock lock(mutex_);
    return text_;
  }
  void set(std::string text) {
    const std::scoped_lock lock(mutex_);
    text_ = std::move(text);
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

}  // namespace weightfs
