// The numbers of a tensor as float32, whatever type they are stored in, and the scales of quantised types.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/source.h"
#include "formats/dtype.h"
#include "formats/tensor_list.h"

namespace weightfs {

/// Whether float32_values() converts elements of this type: real numbers, also quantised ones.
bool has_float32(const DType& dtype);

/// The elements of a tensor converted to float32: in C order, little-endian, four bytes each. A read converts the
/// blocks of its range only. The tensor must have has_float32(*tensor.dtype) and not be refused. Reads fail as reading
/// the tensor fails.
SourcePtr float32_values(const TensorView& tensor);

/// What the stored integers of a quantised tensor mean, where its format has the scale outside of the tensor.
struct AffineNumbers {
  double scale = 1;
  double offset = 0;
  bool is_integer = false;  ///< the numbers are rounded to integers, halves upwards
};

/// The numbers `stored * scale + offset` of a tensor of integers, computed as double and rounded once, as
/// float32_values() returns values.
SourcePtr affine_values(const TensorView& tensor, const AffineNumbers& numbers);

/// As float32_values(), or affine_values() unless `affine` is null, for a type of at most 22 significant bits: a number
/// between two values of float32 is the one of them whose mantissa is odd. Rounding that to the type has the result of
/// rounding the number itself, once.
SourcePtr values_to_round(const TensorView& tensor, const AffineNumbers* affine);

/// The value of a float16, by its bits. A signalling NaN becomes a quiet one with the same payload.
float half_to_float(uint16_t half);

/// The nearest bfloat16, the even one of two, by its bits. A NaN becomes a quiet one with the upper bits of the
/// payload.
inline uint16_t to_bfloat16(float value) {
  constexpr uint32_t kMagnitude = 0x7FFF'FFFF, kInfinity = 0x7F80'0000, kQuiet = 0x40;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U;
  return static_cast<uint16_t>((bits & kMagnitude) > kInfinity ? bits >> 16U | kQuiet : rounded);
}

/// The nearest float16, the even one of two, by its bits: an infinity from 65520 on. A NaN becomes a quiet one. Without
/// branches, as loops of vectors need it: `Float` and `Int` are float and int32_t, or vectors of as many.
template <class Float, class Int>
[[gnu::always_inline]] inline void float16_bits(const Float& value, Int& out) {
  constexpr int32_t kMagnitude = 0x7FFF'FFFF, kInfinity = 0x7F80'0000, kHalf = std::bit_cast<int32_t>(0.5F);
  constexpr int32_t kFirstTooLarge = 0x477F'F000;  // 65520, halfway between the largest float16 and 2^16
  constexpr int32_t kFirstNormal = 0x3880'0000;    // 2^-14
  Int bits, subnormal;
  std::memcpy(&bits, &value, sizeof bits);
  const Int magnitude = bits & kMagnitude;
  // All bits or none.
  const Int is_subnormal = (magnitude - kFirstNormal) >> 31;
  const Int is_finite = (magnitude - kFirstTooLarge) >> 31;
  const Int is_nan = (kInfinity - magnitude) >> 31;
  // The sum is rounded to a multiple of 2^-24, the smallest float16.
  const Int small = magnitude & is_subnormal;
  Float sum;
  std::memcpy(&sum, &small, sizeof sum);
  sum += 0.5F;
  std::memcpy(&subnormal, &sum, sizeof subnormal);
  const Int rebiased = magnitude - (112 << 23);
  const Int normal = (rebiased + 0xFFF + (rebiased >> 13 & 1)) >> 13;
  const Int finite = ((subnormal - kHalf) & is_subnormal) | (normal & ~is_subnormal);
  const Int nan = (magnitude >> 13 & 0x3FF) | 0x200;
  out = (bits >> 16 & 0x8000) | (finite & is_finite) | (0x7C00 & ~is_finite) | (nan & is_nan);
}
inline uint16_t to_float16(float value) {
  int32_t bits = 0;
  float16_bits(value, bits);
  return static_cast<uint16_t>(bits);
}

/// The number of elements of a tensor that was not refused: its size in bytes was computed without overflow.
uint64_t element_count(ShapeView shape);

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
