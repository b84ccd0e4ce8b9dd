// How many elements a packed tensor has, by the scales beside it: a group of weights shares a scale.
#pragma once

#include "formats/summary/fields.h"
#include "formats/summary/summary.h"
#include "formats/tensor_list.h"

namespace weightfs::summary {

/// The number of bits of an element of a plain type; nothing for a type with blocks.
Number bits_of(const DType& dtype);

/// A tensor of packed weights, and the tensor of their scales.
struct ScaledShapes {
  ShapeView weight;
  uint64_t bits = 0;  ///< of a stored element
  ShapeView scale;

  Number stored_bits() const { return product(elements_of(weight), bits); }

  /// Whether there is one scale, or one for each row or column.
  bool is_scaled_by_row() const;
  /// Whether a side of the matrix of scales can be one of the matrix of so many elements. True of other shapes.
  bool has_side_of_scales(uint64_t elements) const;
};

struct Unpacked {
  uint64_t elements = 0;
  uint64_t bits = 0;  ///< of an element
};

/// The elements if so many share a scale; nothing if the shapes contradict that, or do not decide it. `stated`: the
/// bits that decide where several numbers of bits have the same number of scales.
std::optional<Unpacked> unpack_by_groups(const ScaledShapes& shapes, uint64_t group_size, Number stated);

}  // namespace weightfs::summary
