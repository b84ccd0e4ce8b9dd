#include "numbers/dead_rows.h"

#include <algorithm>

namespace weightfs::numbers {

// All elements are of one row.
void DeadRows::add_zeros(uint64_t elements, bool are_zero) {
  const uint64_t row = end_ / length_ * length_;
  if (end_ == row) tail_is_zero_ = true;
  tail_is_zero_ = tail_is_zero_ && are_zero;
  if (row < first_) head_is_zero_ = tail_is_zero_;
  end_ += elements;
  if (end_ == row + length_ && row >= first_ && tail_is_zero_) ++dead_;
}

template <class T, class IsZero>
void DeadRows::add_block(std::span<const T> block, const IsZero& is_zero) {
  while (!block.empty()) {
    const auto part = block.first(static_cast<size_t>(std::min<uint64_t>(block.size(), length_ - end_ % length_)));
    // Most rows have a number at the beginning that is not zero.
    const bool is_first_zero = is_zero(part.front());
    add_zeros(part.size(), is_first_zero && std::ranges::all_of(part, is_zero));
    block = block.subspan(part.size());
  }
}

void DeadRows::add(std::span<const uint16_t> block, bool has_signed_zero) {
  const unsigned bits = has_signed_zero ? 0x7FFF : 0xFFFF;
  add_block(block, [bits](uint16_t pattern) { return (pattern & bits) == 0; });
}
void DeadRows::add(std::span<const float> block) {
  add_block(block, [](float value) { return value == 0; });
}
void DeadRows::add(std::span<const double> block) {
  add_block(block, [](double value) { return value == 0; });
}

void DeadRows::add(const DeadRows& next) {
  const uint64_t row = end_ / length_ * length_;
  const bool is_within_row = end_ != row;
  const uint64_t row_end = row + length_;
  dead_ += next.dead_;
  if (is_within_row) {
    const bool is_zero = tail_is_zero_ && next.head_is_zero_;
    if (row < first_) head_is_zero_ = is_zero;
    if (next.end_ >= row_end) {
      if (row >= first_ && is_zero) ++dead_;
      tail_is_zero_ = next.tail_is_zero_;
    } else {
      tail_is_zero_ = is_zero;
    }
  } else {
    tail_is_zero_ = next.tail_is_zero_;
  }
  end_ = next.end_;
}

}  // namespace weightfs::numbers
