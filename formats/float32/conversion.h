// How the elements of a type become float32: one function per type, which converts whole blocks in memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "formats/dtype.h"

namespace weightfs::float32 {

/// Converts `blocks` blocks. `in` may have any alignment; the ranges do not overlap.
using Convert = void (*)(const std::byte* in, float* out, size_t blocks);

/// A row of a table of conversions.
struct Conversion {
  std::string_view dtype;
  uint32_t block;        ///< elements per block
  uint32_t block_bytes;  ///< bytes per block
  Convert convert;
};

/// Whether the rows of a table are sorted by name, as conversion_of() needs.
constexpr bool is_sorted(std::span<const Conversion> table) {
  return std::ranges::is_sorted(table, {}, &Conversion::dtype);
}

// The tables, each sorted by name. Values are rounded to the nearest float32, ties to even, and those that are too
// large become infinities. Quantised types have the bits of the scalar dequantize_row functions of ggml d99724f2.
std::span<const Conversion> number_conversions();
std::span<const Conversion> packed_conversions();  ///< of packed elements: a block has eight
std::span<const Conversion> scaled_conversions();  ///< quantised; "mxfp4_pairs" is mxfp4 with ByteOrder::pairs
std::span<const Conversion> grid_conversions();    ///< quantised with grids

/// Whether the elements have no boundaries of blocks: the last of the eights may be incomplete.
inline bool is_packed(const DType& dtype) { return dtype.packed_bits > 0 || dtype.npy_packed; }

/// The conversion of a type; null if its elements are not real numbers, or if no rule for them is known. Of a
/// big-endian type it is that of its blocks after reverse_numbers().
const Conversion* conversion_of(const DType& dtype);

/// Reverses the bytes of the numbers in the blocks of a big-endian type.
void reverse_numbers(const DType& dtype, std::span<std::byte> blocks);

/// The value of a float16. A signalling NaN becomes a quiet one with the same payload.
inline float half_value(uint16_t half) {
  const uint32_t magnitude = (half & 0x7FFFU) << 13;
  const float subnormal = std::bit_cast<float>((half & 0x3FFU) | 0x3F000000U) - 0.5F;  // exact; no subnormal operand
  uint32_t bits = magnitude + (112U << 23);                                            // the difference of the biases
  if (magnitude < 1U << 23) bits = std::bit_cast<uint32_t>(subnormal);
  if (magnitude >= 31U << 23) bits = magnitude | 0x7F800000U | (magnitude > 31U << 23 ? 0x400000U : 0U);
  return std::bit_cast<float>(bits | (half & 0x8000U) << 16);
}

}  // namespace weightfs::float32
