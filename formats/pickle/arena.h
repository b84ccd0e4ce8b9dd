// A growing array whose elements never move. Its memory is charged before it is allocated, in blocks.
#pragma once

#include <deque>

#include "base/budget.h"

namespace weightfs::pickle {

template <class T>
class Arena {
 public:
  /// Adds an element. Fails as the budget does.
  Result<void> push(T element, Charges& charges) {
    if (elements_.size() % kBlock == 0) TRY_VOID(charges.charge(Cost::kept, kBlock * sizeof(T)));
    elements_.push_back(std::move(element));
    return {};
  }
  T& operator[](size_t i) { return elements_[i]; }
  const T& operator[](size_t i) const { return elements_[i]; }
  size_t size() const { return elements_.size(); }

 private:
  static constexpr size_t kBlock = 256;
  std::deque<T> elements_;
};

}  // namespace weightfs::pickle
