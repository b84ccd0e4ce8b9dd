// Minimum, maximum, mean and higher moments of numbers, which can be added up in parts.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "numbers/exact_sum.h"

namespace weightfs::numbers {

/// A number, and how many times it occurs.
struct Counted {
  double value;
  uint64_t count;
};

/// The moments of the finite numbers. Central moments are computed around the mean of each block and joined by the
/// formulas of Pébay (SAND2008-6212, 3.1), so they do not cancel.
class Moments {
 public:
  /// Adds finite numbers.
  void add(std::span<const float> block);
  void add(std::span<const double> block);
  /// Adds finite numbers, each as many times as it was counted.
  void add(std::span<const Counted> numbers);
  void add(const Moments& other);

  uint64_t count() const { return count_; }
  uint64_t zeros() const { return zeros_; }
  // The others are of at least one number.
  double min() const { return min_; }
  double max() const { return max_; }
  double mean() const { return sum_.value() / static_cast<double>(count_); }
  double std() const;                               ///< the standard deviation of the population
  std::optional<double> skewness() const;           ///< nothing if all numbers are equal, or on overflow
  std::optional<double> kurtosis() const;           ///< in excess of 3, the kurtosis of a normal distribution
  double l1() const { return magnitude_.value(); }  ///< the sum of absolutes
  double l2() const;                                ///< the root of the sum of squares
  double rms() const;

 private:
  template <class T>
  void add_block(std::span<const T> block);
  // Joins numbers with these moments around their own mean.
  void join(uint64_t count, double mean, double second, double third, double fourth);
  void add_sums(uint64_t count, const ExactSum& sum, const ExactSum& magnitude, double min, double max);

  uint64_t count_ = 0;
  uint64_t zeros_ = 0;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
  ExactSum sum_;
  ExactSum magnitude_;
  double second_ = 0;  // the sum of squares of the distances from the mean
  double third_ = 0;
  double fourth_ = 0;
};

}  // namespace weightfs::numbers
