// Rows of zeros: outputs of a layer that are always zero, or tokens that were never trained.
#pragma once

#include <cstdint>
#include <span>

#include "numbers/elements.h"

namespace weightfs::numbers {

/// The rows of zeros in a part of a tensor, which can be added up in the order of the parts.
class DeadRows {
 public:
  /// For a part that begins at the element `first`; rows have `length` elements, more than 0.
  DeadRows(uint64_t first, uint64_t length) : length_(length), first_(first), end_(first) {}

  /// Adds the elements after those that were added.
  void add(std::span<const uint16_t> block, bool has_signed_zero);
  void add(std::span<const float> block);
  void add(std::span<const double> block);
  /// Adds the part behind this one.
  void add(const DeadRows& next);

  uint64_t count() const { return dead_; }  ///< rows that are whole in this part

 private:
  template <class T, class IsZero>
  void add_block(std::span<const T> block, const IsZero& is_zero);
  void add_zeros(uint64_t elements, bool are_zero);

  uint64_t length_;
  uint64_t first_;
  uint64_t end_;
  uint64_t dead_ = 0;
  // Whether the elements of the row that this part begins in are zeros, if it is not whole here.
  bool head_is_zero_ = true;
  // Whether those of the last row are, unless the part ends with it.
  bool tail_is_zero_ = true;
};

}  // namespace weightfs::numbers
