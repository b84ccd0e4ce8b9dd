#include "numbers/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "numbers/dead_rows.h"
#include "numbers/kernels.h"
#include "numbers/order_statistics.h"

namespace weightfs::numbers {
namespace {

// What a chunk has beside its counts.
struct Part {
  Moments moments;  // not of narrow elements: theirs come from the counts
  uint64_t nan = 0;
  uint64_t inf = 0;
  std::optional<DeadRows> rows;
};

template <class T>
void add_finite(std::span<const T> block, Part& part) {
  if (count_not_finite(block) == 0) return part.moments.add(block);
  std::vector<T> finite;
  finite.reserve(block.size());
  for (const T value : block) {
    if (std::isfinite(value))
      finite.push_back(value);
    else
      ++(std::isnan(value) ? part.nan : part.inf);
  }
  part.moments.add(std::span<const T>(finite));
}

struct Pass {
  Counts counts;
  Part whole;
};

Result<Pass> read_once(const Elements& elements, std::span<const ElementRange> chunks, uint64_t row, size_t threads,
                       const CountBytes& count_bytes) {
  const bool has_signed_zero = elements.are_narrow() && elements.value_of(0x8000) == 0;
  std::vector<Part> parts(chunks.size());
  PerThread<Counts> counters([&] { return Counts(elements.form()); });
  TRY_VOID(in_parallel(parts.size(), threads, [&](uint64_t chunk) {
    Part& part = parts[static_cast<size_t>(chunk)];
    const ElementRange range = chunks[static_cast<size_t>(chunk)];
    if (row > 0) part.rows.emplace(range.first, row);
    return counters.with([&](Counts& counts) {
      return elements.for_each_block(range, count_bytes, [&](uint64_t, auto block) -> Result<void> {
        counts.add(block);
        if constexpr (std::is_same_v<decltype(block), std::span<const uint16_t>>) {
          if (part.rows) part.rows->add(block, has_signed_zero);
        } else {
          if (!elements.are_narrow()) add_finite(block, part);
          if (part.rows) part.rows->add(block);
        }
        return {};
      });
    });
  }));
  Part whole;
  if (row > 0) whole.rows.emplace(0, row);
  for (const Part& part : parts) {  // in order, so that the result does not depend on the threads
    whole.moments.add(part.moments);
    whole.nan += part.nan;
    whole.inf += part.inf;
    if (row > 0) whole.rows->add(*part.rows);
  }
  return Pass{counters.total(), std::move(whole)};
}

// The places of a quantile among `count` numbers, and how far it is between them.
struct QuantilePlace {
  uint64_t below;
  uint64_t above;
  double part;
};

QuantilePlace place_of(double quantile, uint64_t count) {
  const double place = quantile * static_cast<double>(count - 1);
  const auto below = std::min(static_cast<uint64_t>(place), count - 1);
  return {below, std::min(below + 1, count - 1), place - static_cast<double>(below)};
}

// As NumPy interpolates.
double between(double a, double b, double part) {
  const double distance = b - a;
  return part >= 0.5 ? b - distance * (1 - part) : a + distance * part;
}

void set_quantiles(const Distribution& distribution, FiniteStatistics& finite) {
  finite.quantiles.resize(kQuantiles.size());
  for (size_t i = 0; i < kQuantiles.size(); ++i) {
    const auto [below, above, part] = place_of(kQuantiles[i], distribution.count);
    const double value = between(distribution.at(below), distribution.at(above), part);
    finite.quantiles[i] = std::clamp(value, finite.moments.min(), finite.moments.max());
  }
}

Result<void> set_exact_quantiles(const Elements& elements, std::span<const ElementRange> chunks,
                                 const Distribution& distribution, size_t threads, const CountBytes& count_bytes,
                                 FiniteStatistics& finite) {
  std::vector<uint64_t> places;
  for (const double quantile : kQuantiles) {
    const QuantilePlace place = place_of(quantile, distribution.count);
    places.push_back(place.below);
    places.push_back(place.above);
  }
  const std::vector<double> found = TRY(numbers_at(elements, chunks, distribution, places, threads, count_bytes));
  for (size_t i = 0; i < kQuantiles.size(); ++i)
    finite.quantiles[i] = between(found[2 * i], found[2 * i + 1], place_of(kQuantiles[i], distribution.count).part);
  return {};
}

struct Intervals {
  std::vector<uint64_t> counts = std::vector<uint64_t>(FiniteStatistics::kIntervals);
  uint64_t near_zero = 0;

  void add(const Intervals& other) {
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
    near_zero += other.near_zero;
  }
};

Result<void> set_exact_histogram(const Elements& elements, std::span<const ElementRange> chunks, double threshold,
                                 size_t threads, const CountBytes& count_bytes, FiniteStatistics& finite) {
  const double min = finite.moments.min(), max = finite.moments.max();
  const auto add = [&](Intervals& intervals, uint64_t, auto block) {
    for (const auto value : block) {
      if (!std::isfinite(value)) continue;
      ++intervals.counts[interval_of(static_cast<double>(value), min, max, FiniteStatistics::kIntervals)];
      intervals.near_zero += std::abs(static_cast<double>(value)) < threshold ? 1U : 0U;
    }
  };
  Intervals total = TRY(sum_over<Intervals>(
      elements, chunks, threads, count_bytes, [] { return Intervals(); }, add));
  finite.histogram = std::move(total.counts);
  finite.near_zero = total.near_zero;
  return {};
}

// Different values; 0 and -0 are equal.
uint64_t distinct_values(const Distribution& distribution) {
  uint64_t count = 0;
  double last = std::numeric_limits<double>::quiet_NaN();
  for (const Bin& bin : distribution.bins) {
    count += bin.low == last ? 0U : 1U;
    last = bin.low;
  }
  return count;
}

bool is_read_twice(const Elements& elements, const StatisticsOptions& options) {
  return !elements.are_narrow() && (options.exact || (!options.sample && elements.count() <= kSmallTensor));
}

std::vector<ElementRange> ranges_of(const Elements& elements, ShapeView shape, const StatisticsOptions& options) {
  return options.sample ? elements.sample(row_length(shape)) : elements.chunks();
}

uint64_t total_of(std::span<const ElementRange> ranges) {
  uint64_t total = 0;
  for (const ElementRange& range : ranges) total += range.count;
  return total;
}

}  // namespace

void set_from_distribution(const Distribution& distribution, double threshold, FiniteStatistics& finite) {
  set_quantiles(distribution, finite);
  finite.histogram = distribution.histogram(finite.moments.min(), finite.moments.max(), FiniteStatistics::kIntervals);
  finite.octaves = distribution.octaves();
  finite.near_zero = distribution.below(threshold);
}

Result<Figures> figures_of(const Elements& all, ShapeView shape, const StatisticsOptions& options,
                           const CountBytes& count_bytes) {
  Elements elements = options.sample ? all.for_samples() : all;
  if (is_read_twice(elements, options)) elements = TRY(elements.loaded());
  const std::vector<ElementRange> chunks = ranges_of(elements, shape, options);
  Figures out;
  Statistics& statistics = out.statistics;
  statistics.count = total_of(chunks);
  statistics.elements = elements.count();
  const uint64_t row = statistics.is_sample() ? 0 : row_length(shape);
  Pass pass = TRY(read_once(elements, chunks, row, options.threads, count_bytes));
  out.distribution = pass.counts.distribution(elements);
  if (elements.are_narrow()) {
    std::vector<Counted> numbers;
    for (const Bin& bin : out.distribution.bins) numbers.push_back({bin.low, bin.count});
    pass.whole.moments.add(numbers);
  }
  statistics.zeros = pass.whole.moments.zeros();
  statistics.nan = pass.whole.nan + out.distribution.nan;
  statistics.inf = pass.whole.inf + out.distribution.inf;
  if (row > 0) {
    statistics.rows = elements.count() / row;
    statistics.dead_rows = pass.whole.rows->count();
  }
  if (out.distribution.count == 0) return out;
  FiniteStatistics& finite = statistics.finite.emplace();
  finite.moments = pass.whole.moments;
  finite.is_exact = elements.are_narrow() || is_read_twice(elements, options);
  set_from_distribution(out.distribution, options.threshold, finite);
  if (elements.are_narrow()) finite.distinct = distinct_values(out.distribution);
  if (is_read_twice(elements, options)) {
    TRY_VOID(set_exact_quantiles(elements, chunks, out.distribution, options.threads, count_bytes, finite));
    TRY_VOID(set_exact_histogram(elements, chunks, options.threshold, options.threads, count_bytes, finite));
  }
  return out;
}

uint64_t bytes_to_read(const Elements& elements, ShapeView shape, const StatisticsOptions& options) {
  const uint64_t count = total_of(ranges_of(elements, shape, options));
  const uint64_t once = elements.bytes(count);
  // Twice for the counts and the histogram.
  return is_read_twice(elements, options) ? once * (2 + passes_of_numbers_at(elements.form(), count)) : once;
}

void Totals::add(const Statistics& one) {
  ++tensors_;
  sums_.count += one.count;
  sums_.elements += one.elements;
  sums_.zeros += one.zeros;
  sums_.nan += one.nan;
  sums_.inf += one.inf;
  if (one.rows) sums_.rows = sums_.rows.value_or(0) + *one.rows;
  sums_.dead_rows += one.dead_rows;
  if (one.finite) moments_.add(one.finite->moments);
}

Statistics Totals::statistics(const Distribution* distribution, double threshold) const {
  Statistics out = sums_;
  if (moments_.count() == 0) return out;
  FiniteStatistics& finite = out.finite.emplace();
  finite.moments = moments_;
  if (distribution != nullptr) set_from_distribution(*distribution, threshold, finite);
  return out;
}

}  // namespace weightfs::numbers
