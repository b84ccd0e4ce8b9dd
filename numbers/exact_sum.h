// A sum whose error does not grow with the number of terms.
#pragma once

#include <cmath>

namespace weightfs::numbers {

/// Neumaier's sum: the rounding error of each addition is added up separately.
class ExactSum {
 public:
  void add(double term) {
    const double sum = sum_ + term;
    rest_ += std::abs(sum_) >= std::abs(term) ? (sum_ - sum) + term : (term - sum) + sum_;
    sum_ = sum;
  }
  void add(const ExactSum& other) {
    add(other.sum_);
    add(other.rest_);
  }
  /// After an overflow the errors are not numbers, and the sum is infinite.
  double value() const { return std::isfinite(sum_) ? sum_ + rest_ : sum_; }

 private:
  double sum_ = 0;
  double rest_ = 0;  // the rounding errors
};

}  // namespace weightfs::numbers
