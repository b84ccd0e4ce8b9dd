// Tensors that are stored in slices: boxes that have each element once.
#pragma once

#include <cstdint>
#include <vector>

#include "base/budget.h"
#include "base/source.h"
#include "formats/tensor_list.h"

namespace weightfs {

/// A box of a tensor, in elements.
struct Box {
  Shape start;
  Shape length;
};

/// A slice of a tensor: its box, and its bytes in C order.
struct PlacedBox {
  Box box;
  Slice bytes;
};

/// The tensor that slices make up, without a copy if they follow each other. `width`: bytes per element. Fails with
/// corrupt unless the slices have each element once, and as the budget does.
Result<Slice> join(std::vector<PlacedBox> slices, const Shape& shape, uint64_t width, Budget& budget);

}  // namespace weightfs
