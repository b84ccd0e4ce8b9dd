#include "cli/compare/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weightfs::compare {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The first pass.
struct Range {
  uint64_t zeros = 0;
  uint64_t nan = 0;
  uint64_t inf = 0;
  double min = kInfinity;
  double max = -kInfinity;
  ExactSum sum;

  void add(std::span<const double> values) {
    std::array<double, kLanes> least, most, sums{}, zero{}, not_a_number{}, infinite{};  // counts below 2^53
    least.fill(kInfinity);
    most.fill(-kInfinity);
    const auto add_one = [&](size_t lane, double value) {
      const bool is_finite = std::abs(value) < kInfinity;
      const double low = is_finite ? value : kInfinity;
      const double high = is_finite ? value : -kInfinity;
      least[lane] = low < least[lane] ? low : least[lane];
      most[lane] = high > most[lane] ? high : most[lane];
      sums[lane] += is_finite ? value : 0;
      zero[lane] += value == 0 ? 1 : 0;
      not_a_number[lane] += value == value ? 0 : 1;
      infinite[lane] += std::abs(value) == kInfinity ? 1 : 0;
    };
    const size_t whole = values.size() / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes)
      for (size_t lane = 0; lane < kLanes; ++lane) add_one(lane, values[i + lane]);
    for (size_t i = whole; i < values.size(); ++i) add_one(i - whole, values[i]);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      min = std::min(min, least[lane]);
      max = std::max(max, most[lane]);
      sum.add(sums[lane]);
      zeros += static_cast<uint64_t>(zero[lane]);
      nan += static_cast<uint64_t>(not_a_number[lane]);
      inf += static_cast<uint64_t>(infinite[lane]);
    }
  }

  void add(const Range& other) {
    zeros += other.zeros;
    nan += other.nan;
    inf += other.inf;
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    sum.add(other.sum);
  }
};

// The second pass: squares of distances from the known mean do not cancel.
struct Spread {
  ExactSum squares;
  std::array<uint64_t, Statistics::kBins> histogram{};

  void add(std::span<const double> values, const Statistics::Finite& known) {
    const double half = known.max / 2 - known.min / 2;  // the difference itself may overflow
    const double factor = Statistics::kBins / half;
    const bool has_bins = half > 0 && factor < kInfinity;
    std::array<double, kLanes> sums{};
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      if (!(std::abs(value) < kInfinity)) continue;
      const double distance = value - known.mean;
      sums[i % kLanes] += distance * distance;
      const double position = has_bins ? (value / 2 - known.min / 2) * factor : 0;
      ++histogram[std::min(static_cast<size_t>(position), Statistics::kBins - 1)];
    }
    for (const double lane : sums) squares.add(lane);
  }

  void add(const Spread& other) {
    squares.add(other.squares);
    for (size_t i = 0; i < histogram.size(); ++i) histogram[i] += other.histogram[i];
  }
};

// The sum of the parts, in their order, so that the result does not depend on the threads.
template <class Part, class... Known>
Result<Part> sum_of_parts(const Numbers& numbers, size_t threads, const CountBytes& count_bytes,
                          const Known&... known) {
  std::vector<Part> parts(static_cast<size_t>(numbers.chunks()));
  TRY_VOID(in_parallel(parts.size(), threads, [&](uint64_t chunk) {
    Part& part = parts[static_cast<size_t>(chunk)];
    return numbers.for_each_block(chunk, count_bytes, [&](std::span<const double> values) -> Result<void> {
      part.add(values, known...);
      return {};
    });
  }));
  Part all;
  for (const Part& part : parts) all.add(part);
  return all;
}

}  // namespace

Result<Statistics> statistics_of(const Numbers& numbers, size_t threads, const CountBytes& count_bytes) {
  const Range range = TRY(sum_of_parts<Range>(numbers, threads, count_bytes));
  Statistics out{.count = numbers.count(), .zeros = range.zeros, .nan = range.nan, .inf = range.inf, .finite = {}};
  const uint64_t finite = out.count - out.nan - out.inf;
  if (finite == 0) return out;
  Statistics::Finite known{.min = range.min,
                           .max = range.max,
                           .mean = range.sum.value() / static_cast<double>(finite),
                           .std = 0,
                           .histogram = {}};
  const Spread spread = TRY(sum_of_parts<Spread>(numbers, threads, count_bytes, known));
  known.std = std::sqrt(spread.squares.value() / static_cast<double>(finite));
  known.histogram = spread.histogram;
  out.finite = known;
  return out;
}

}  // namespace weightfs::compare
