// How far the numbers of two tensors are apart.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "formats/dtype.h"
#include "formats/tensor_list.h"
#include "numbers/channels.h"
#include "numbers/counts.h"
#include "numbers/elements.h"
#include "numbers/exact_sum.h"
#include "numbers/kernels.h"

namespace weightfs::numbers {

/// Nothing for a type that is not a floating-point type, such as quantised ones.
std::optional<Precision> precision_of(const DType& dtype);

/// The less precise of the types of two tensors; nothing if one has no precision.
std::optional<Precision> worse_precision(const DType& a, const DType& b);

/// The deviation of pairs of numbers, which can be added up in the order of the pairs. A pair with a NaN is counted in
/// `nan`, and left out of the other figures; it differs if only one of the two is NaN. Equal infinities have the
/// difference 0.
class Deviation {
 public:
  explicit Deviation(std::optional<Precision> precision = std::nullopt) : precision_(precision) {}

  /// Adds pairs: the two spans have the same size. `first` is the index of the first pair.
  void add(uint64_t first, std::span<const float> a, std::span<const float> b);
  void add(uint64_t first, std::span<const double> a, std::span<const double> b);
  void add(const Deviation& other);

  uint64_t count() const { return count_; }
  uint64_t differing() const { return differing_; }  ///< pairs whose values differ
  uint64_t nan() const { return nan_; }              ///< pairs with a NaN
  bool has_numbers() const { return count_ > nan_; }

  double max() const { return max_; }                ///< the maximum absolute difference
  uint64_t max_index() const { return max_index_; }  ///< the first pair that has it; 0 if none differs
  std::optional<double> mean() const;                ///< the mean absolute difference; nothing without pairs
  std::optional<double> rmse() const;                ///< the root of the mean square of the differences
  /// The root of the sum of squares of the differences, divided by that of the first tensor. Nothing if this is 0, or
  /// on overflow.
  std::optional<double> relative_error() const;
  /// 20 log10 of the inverse of the relative error; infinite for equal tensors.
  std::optional<double> snr_db() const;
  /// The cosine of the angle between the two tensors as vectors; nothing if one is zero or not finite.
  std::optional<double> cosine() const;
  /// The share of pairs that are at most kUlps[i] units in the last place apart, of the less precise type.
  std::optional<double> share_within(size_t i) const;

 private:
  template <class T>
  void add_block(uint64_t first, std::span<const T> a, std::span<const T> b);
  template <class T>
  void add_finite(uint64_t first, std::span<const T> a, std::span<const T> b);
  void add_special(uint64_t index, double a, double b);
  void raise_max(double difference, uint64_t index);

  std::optional<Precision> precision_;
  uint64_t count_ = 0;
  uint64_t differing_ = 0;
  uint64_t nan_ = 0;
  double max_ = 0;
  uint64_t max_index_ = 0;
  std::array<uint64_t, kUlps.size()> within_{};
  ExactSum sum_;      // of absolute differences
  ExactSum square_;   // of their squares
  ExactSum product_;  // the scalar product
  ExactSum square_a_;
  ExactSum square_b_;
};

/// Which of two tensors.
enum class Side { a, b };

/// A failure to read one of two.
struct SideError {
  Side side;
  Error error;
};

/// The deviation of two tensors, and the absolute differences as a distribution (as of float32).
struct PairFigures {
  Deviation deviation;
  Distribution differences;
};

/// Compares two tensors with the same number of elements. Fails as reading them fails.
tl::expected<PairFigures, SideError> deviation_of(const Elements& a, const Elements& b,
                                                  std::optional<Precision> precision, size_t threads,
                                                  const CountBytes& count_bytes);

/// The root mean square difference of each channel, in order. Fails as channels_of() does.
tl::expected<std::vector<double>, SideError> channel_errors_of(const Elements& a, const Elements& b, ShapeView shape,
                                                               size_t axis, size_t threads,
                                                               const CountBytes& count_bytes);

}  // namespace weightfs::numbers
