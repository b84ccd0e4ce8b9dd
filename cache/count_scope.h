// Counts what is in progress.
#pragma once

#include <atomic>

namespace weightfs {

/// While it exists, `count` is greater by one; null counts nothing.
class CountScope {
 public:
  explicit CountScope(std::atomic<int>* count) : count_(count) {
    if (count_ != nullptr) ++*count_;
  }
  ~CountScope() {
    if (count_ != nullptr) --*count_;
  }
  CountScope(const CountScope&) = delete;
  CountScope& operator=(const CountScope&) = delete;

 private:
  std::atomic<int>* const count_;
};

}  // namespace weightfs
