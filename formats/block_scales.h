// The scales and minimums in the blocks of quantised tensors: what the quants are multiplied with, and what is added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/dtype.h"

namespace weightfs {

/// Where the scales of a quantised type are (ggml-common.h; the order of dequantize_row in ggml-quants.c).
struct BlockScales {
  size_t block_bytes;
  size_t scales;    ///< of a block: one for each part that has a scale of its own
  size_t minimums;  ///< as many as scales, or 0
  /// Reads those of one block.
  void (*read)(const std::byte* block, float* scales, float* minimums);
};

/// Null for a type that is not quantised, or whose scales are mixed with its quants (the IQ types but iq4_nl).
const BlockScales* block_scales_of(const DType& dtype);

}  // namespace weightfs
