// How far the numbers of two tensors are apart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "cli/compare/bytes.h"
#include "cli/compare/numbers.h"

namespace weightfs::compare {

/// The deviation of pairs of numbers. A pair with a NaN is counted in `nan`, and left out of the other figures; it
/// differs if only one of the two is NaN. Equal infinities have the difference 0.
class Deviation {
 public:
  /// Adds pairs: the two spans have the same size.
  void add(std::span<const double> a, std::span<const double> b);
  void add(const Deviation& other);

  uint64_t count() const { return count_; }
  uint64_t differing() const { return differing_; }  ///< pairs whose values differ
  uint64_t nan() const { return nan_; }              ///< pairs with a NaN

  double max() const { return max_; }  ///< the maximum absolute difference
  std::optional<double> mean() const;  ///< the mean absolute difference; nothing without pairs
  /// The cosine of the angle between the two tensors as vectors; nothing if one is zero or not finite.
  std::optional<double> cosine() const;

 private:
  uint64_t count_ = 0;
  uint64_t differing_ = 0;
  uint64_t nan_ = 0;
  double max_ = 0;
  ExactSum sum_;      // of absolute differences
  ExactSum product_;  // the scalar product
  ExactSum square_a_;
  ExactSum square_b_;
};

/// The deviation of two tensors with the same number of elements. Fails as reading them fails.
tl::expected<Deviation, SideError> deviation_of(const Numbers& a, const Numbers& b, size_t threads,
                                                const CountBytes& count_bytes);

}  // namespace weightfs::compare
