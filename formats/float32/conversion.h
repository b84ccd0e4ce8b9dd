// How the elements of a type become float32: one function per type, which converts whole blocks in memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
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
inline bool is_packed(const DType& dtype) { return dtype.packed_bits > 0 || dtype.spans_rows; }

/// The conversions of types with numbers that are not exact as float32, rounded to odd (values_to_round).
std::span<const Conversion> odd_conversions();

/// A number rounded to odd.
inline float to_odd(double number) {
  const auto nearest = static_cast<float>(number);
  if (std::isnan(number) || static_cast<double>(nearest) == number) return nearest;
  const auto bits = std::bit_cast<uint32_t>(nearest);  // the magnitude is in the lower bits
  return std::bit_cast<float>((std::fabs(nearest) > std::fabs(number) ? bits - 1 : bits) | 1U);
}

/// The conversion of a type; null if its elements are not real numbers, or if no rule for them is known. For a
/// big-endian type it is the conversion of its blocks after reverse_numbers().
const Conversion* conversion_of(const DType& dtype);

/// As conversion_of(), but rounded to odd.
const Conversion* conversion_to_odd(const DType& dtype);

/// Reverses the bytes of the numbers in the blocks of a big-endian type.
void reverse_numbers(const DType& dtype, std::span<std::byte> blocks);

/// The value of a float16. A signalling NaN becomes a quiet one with the same payload.
inline float half_value(uint16_t half) {
  // Without branches, so that loops are vectorised. No operand is subnormal, because that would take a hundred cycles.
  const int32_t magnitude = (half & 0x7FFF) << 13;
  const int32_t normal = magnitude + (112 << 23);  // the difference of the biases
  const auto subnormal = std::bit_cast<int32_t>(std::bit_cast<float>((half & 0x3FF) | 0x3F000000) - 0.5F);
  const int32_t special = magnitude | 0x7F800000 | (magnitude > 31 << 23 ? 0x400000 : 0);
  const int32_t if_subnormal = (magnitude - (1 << 23)) >> 31;  // all bits or none
  const int32_t if_finite = (magnitude - (31 << 23)) >> 31;
  const int32_t finite = (subnormal & if_subnormal) | (normal & ~if_subnormal);
  const int32_t bits = (finite & if_finite) | (special & ~if_finite);
  return std::bit_cast<float>(static_cast<uint32_t>(bits) | (half & 0x8000U) << 16);
}

}  // namespace weightfs::float32
