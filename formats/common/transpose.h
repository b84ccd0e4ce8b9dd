// Transposes a plane of elements in memory: the part of gathering that takes the processor's time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightfs {

/// A plane of elements: where it begins, and the bytes from one of its rows to the next. The elements of a row follow
/// each other.
struct Plane {
  std::byte* begin;
  uint64_t pitch;
};
struct ConstPlane {
  const std::byte* begin;
  uint64_t pitch;
};

/// Copies `rows` rows of `columns` elements of `width` bytes to `to`: element c of row r is the element r of row c of
/// `from`. The planes do not overlap. Returns false, and copies nothing, if elements are not of 1, 2, 4 or 8 bytes, or
/// if the rows or the columns are fewer than the elements in 16 bytes.
bool transpose(uint32_t width, const ConstPlane& from, const Plane& to, uint64_t rows, uint64_t columns);

}  // namespace weightfs
