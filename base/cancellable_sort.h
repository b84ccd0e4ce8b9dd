// A sort of millions of things that ends when its client has left.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"

namespace weightfs {

/// Sorts parts and merges them, and checks is_cancelled() in between, with which it fails. Equal ones keep their order.
template <class T, class Less = std::less<>>
Result<void> sort_cancellably(std::vector<T>& all, const Less& less = {}) {
  constexpr ptrdiff_t kPart = 1 << 14;
  const auto size = static_cast<ptrdiff_t>(all.size());
  const auto place = [&](ptrdiff_t at) { return all.begin() + std::min(at, size); };
  for (ptrdiff_t at = 0; at < size; at += kPart) {
    if (is_cancelled()) return cancelled();
    std::stable_sort(place(at), place(at + kPart), less);
  }
  for (ptrdiff_t width = kPart; width < size; width *= 2) {
    for (ptrdiff_t at = 0; at + width < size; at += 2 * width) {
      if (is_cancelled()) return cancelled();
      std::inplace_merge(place(at), place(at + width), place(at + 2 * width), less);
    }
  }
  return {};
}

}  // namespace weightfs
