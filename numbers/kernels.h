// Sums over blocks of finite numbers, with the vector instructions of this processor. A sum has eight parts, one for
// each eighth element, so its bits are the same on all processors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weightfs::numbers {

/// Figures of a block of finite numbers; there is at least one.
struct BlockSums {
  double sum = 0;
  double magnitude = 0;  ///< the sum of absolutes
  double min = 0;
  double max = 0;
  uint64_t zeros = 0;
};

/// Sums of the powers of the distances from a mean.
struct BlockPowers {
  double second = 0;
  double third = 0;
  double fourth = 0;
};

/// Sums over pairs of numbers.
struct PairSums {
  double absolute = 0;  ///< of the absolutes of the differences
  double square = 0;    ///< of their squares
  double product = 0;
  double square_a = 0;
  double square_b = 0;
  double max = 0;  ///< the largest absolute difference
  uint64_t differing = 0;
};

/// The distance between neighbouring numbers of a floating-point type.
struct Precision {
  int mantissa_bits;
  int min_exponent;  ///< of the smallest normal number
};

/// The units in the last place that are counted.
inline constexpr std::array kUlps = {1, 2, 4, 8, 16};

BlockSums sums_of(std::span<const float> block);
BlockSums sums_of(std::span<const double> block);
BlockPowers powers_of(std::span<const float> block, double mean);
BlockPowers powers_of(std::span<const double> block, double mean);
PairSums pair_sums_of(std::span<const float> a, std::span<const float> b);
PairSums pair_sums_of(std::span<const double> a, std::span<const double> b);

/// How many pairs of finite numbers are at most kUlps[i] units in the last place apart: those of the larger number.
std::array<uint64_t, kUlps.size()> count_within_ulps(std::span<const float> a, std::span<const float> b,
                                                     const Precision& precision);
std::array<uint64_t, kUlps.size()> count_within_ulps(std::span<const double> a, std::span<const double> b,
                                                     const Precision& precision);

/// How many numbers are infinite or NaN.
size_t count_not_finite(std::span<const float> block);
size_t count_not_finite(std::span<const double> block);

/// Adds the squares of the block to `squares`, and raises `most` to its absolutes, element by element: of the columns
/// of a matrix. NaN is left out of `most`.
void add_columns(std::span<const float> block, double* squares, double* most);
void add_columns(std::span<const double> block, double* squares, double* most);

}  // namespace weightfs::numbers
