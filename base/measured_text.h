// A text whose size is known, and charged to a budget, before it is built: what writes it runs twice, and the first run
// only counts.
#pragma once

#include <cstdint>
#include <string>

#include "base/budget.h"

namespace weightfs {

/// Where a text is written to. While it is counted, what was written is thrown away at each measure().
class MeasuredText {
 public:
  /// Counts.
  MeasuredText() = default;
  /// Builds a text of `size` bytes.
  explicit MeasuredText(uint64_t size) : builds_(true) { text_.reserve(size); }

  std::string& text() { return text_; }

  /// Call it now and then: memory holds what was written since.
  void measure() {
    if (builds_ || text_.size() < kStep) return;
    size_ += text_.size();
    text_.clear();
  }

  uint64_t size() const { return size_ + text_.size(); }  ///< bytes written so far

 private:
  static constexpr size_t kStep = 64 * 1024;

  std::string text_;
  uint64_t size_ = 0;
  bool builds_ = false;
};

/// The text that `write`, a function that takes a MeasuredText and returns a Result<void>, writes. Charges its size.
/// Fails as `write` does, and as Budget::charge() does before anything is built.
template <class Write>
Result<std::string> rendered(Budget& budget, const Write& write) {
  MeasuredText counted;
  TRY_VOID(write(counted));
  TRY_VOID(budget.charge(Cost::rendered, counted.size()));
  MeasuredText built(counted.size());
  TRY_VOID(write(built));
  return std::move(built.text());
}

}  // namespace weightfs
