// Figures about the numbers of a tensor.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "cli/compare/numbers.h"

namespace weightfs::compare {

/// The statistics of a tensor. All but the counts are of its finite numbers.
struct Statistics {
  static constexpr size_t kBins = 16;

  /// Figures of the finite numbers; there is at least one.
  struct Finite {
    double min;
    double max;
    double mean;
    double std;                               ///< the standard deviation of the population
    std::array<uint64_t, kBins> histogram{};  ///< numbers in intervals of equal width from min to max
  };

  uint64_t count = 0;
  uint64_t zeros = 0;
  uint64_t nan = 0;
  uint64_t inf = 0;  ///< of both signs
  std::optional<Finite> finite;
};

/// Reads the tensor twice. Fails as reading it fails.
Result<Statistics> statistics_of(const Numbers& numbers, size_t threads, const CountBytes& count_bytes);

}  // namespace weightfs::compare
