// Figures about the numbers of a tensor.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "formats/tensor_list.h"
#include "numbers/counts.h"
#include "numbers/moments.h"

namespace weightfs::numbers {

/// The shares of a tensor's numbers whose upper limits are computed: percentiles 0.1 to 99.9.
inline constexpr std::array kQuantiles = {0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999};

/// Figures of the finite numbers; there is at least one.
struct FiniteStatistics {
  static constexpr size_t kIntervals = 64;

  Moments moments;
  /// Those of kQuantiles, interpolated linearly between two numbers (as NumPy's default).
  std::vector<double> quantiles;
  /// Numbers in intervals of equal width from the minimum to the maximum.
  std::vector<uint64_t> histogram;
  std::vector<Octave> octaves;       ///< by exponents; exact
  uint64_t near_zero = 0;            ///< numbers whose absolute is below StatisticsOptions::threshold
  bool is_exact = false;             ///< else the quantiles, `histogram` and `near_zero` have a relative error of 2^-7
  std::optional<uint64_t> distinct;  ///< different numbers; known only of types of at most 16 bits
};

/// The statistics of a tensor. All but the counts are of its finite numbers.
struct Statistics {
  uint64_t count = 0;     ///< elements that were read
  uint64_t elements = 0;  ///< of the tensor: more if only a sample was read
  uint64_t zeros = 0;
  uint64_t nan = 0;
  uint64_t inf = 0;              ///< of both signs
  std::optional<uint64_t> rows;  ///< whose elements were all read; nothing without rows, and of a sample
  uint64_t dead_rows = 0;        ///< of these: with nothing but zeros
  std::optional<FiniteStatistics> finite;

  bool is_sample() const { return count < elements; }
};

struct StatisticsOptions {
  bool exact = false;       ///< also of types with more than 16 bits, with a second pass; always of small tensors
  bool sample = false;      ///< read at most 64 rows, or pieces of them
  double threshold = 1e-6;  ///< of FiniteStatistics::near_zero
  size_t threads = 1;
};

/// The tensors up to this number of elements are read twice, so that their figures are exact.
inline constexpr uint64_t kSmallTensor = uint64_t{1} << 20;

/// The statistics of a tensor with what they were computed from.
struct Figures {
  Statistics statistics;
  Distribution distribution;
};

/// The figures of the elements of a tensor of this shape. Fails as reading them fails.
Result<Figures> figures_of(const Elements& elements, ShapeView shape, const StatisticsOptions& options,
                           const CountBytes& count_bytes);

/// Sets what comes from a distribution: quantiles, histogram, near_zero. The moments must be set.
void set_from_distribution(const Distribution& distribution, double threshold, FiniteStatistics& finite);

/// The number of bytes that figures_of() counts.
uint64_t bytes_to_read(const Elements& elements, ShapeView shape, const StatisticsOptions& options);

/// The statistics of several tensors as if they were one, such as those of a layer.
class Totals {
 public:
  void add(const Statistics& statistics);
  uint64_t tensors() const { return tensors_; }
  /// What comes from a distribution (quantiles, histogram, near_zero) is empty without one; with one, it has a relative
  /// error of 2^-7.
  Statistics statistics(const Distribution* distribution = nullptr, double threshold = 0) const;

 private:
  uint64_t tensors_ = 0;
  Statistics sums_;
  Moments moments_;
};

}  // namespace weightfs::numbers
