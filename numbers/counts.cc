#include "numbers/counts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

namespace weightfs::numbers {
namespace {

size_t counter_of(uint16_t pattern) { return pattern; }
size_t counter_of(float value) { return std::bit_cast<uint32_t>(value) >> 16; }
size_t counter_of(double value) { return std::bit_cast<uint64_t>(value) >> Counts::kDoubleRest; }

constexpr size_t counters_of(Form form) { return form == Form::doubles ? size_t{1} << 19 : size_t{1} << 16; }

// The first and the last number of a counter, in the order of their bits.
using NumberRange = std::pair<double, double>;

NumberRange range_of_float(uint32_t counter) {
  return {std::bit_cast<float>(counter << 16), std::bit_cast<float>(counter << 16 | 0xFFFF)};
}

NumberRange range_of_double(uint32_t counter) {
  const uint64_t first = uint64_t{counter} << Counts::kDoubleRest;
  return {std::bit_cast<double>(first), std::bit_cast<double>(first | ((uint64_t{1} << Counts::kDoubleRest) - 1))};
}

}  // namespace

template <class T>
void Counts::add_block(std::span<const T> block) {
  constexpr size_t kCountersOfOne = 16;  // sorting a number costs as much as looking at so many counters
  if (recent_.empty()) {
    if (few_.size() + block.size() <= counters_of(form_) / kCountersOfOne) {
      for (const T value : block) few_.push_back(static_cast<uint32_t>(counter_of(value)));
      return;
    }
    make_table();
  }
  if (added_ + block.size() > std::numeric_limits<uint32_t>::max()) flush();
  added_ += block.size();
  uint32_t* const counters = recent_.data();
  for (const T value : block) ++counters[counter_of(value)];
}

void Counts::add(std::span<const uint16_t> block) { add_block(block); }
void Counts::add(std::span<const float> block) { add_block(block); }
void Counts::add(std::span<const double> block) { add_block(block); }

void Counts::make_table() {
  recent_.resize(counters_of(form_));
  for (const uint32_t counter : few_) ++recent_[counter];
  added_ = few_.size();
  few_ = {};
}

void Counts::flush() {
  if (recent_.empty()) make_table();
  counts_.resize(recent_.size());
  for (size_t i = 0; i < recent_.size(); ++i) counts_[i] += std::exchange(recent_[i], 0);
  added_ = 0;
}

void Counts::add(const Counts& other) {
  flush();
  other.for_each_count([&](uint32_t counter, uint64_t count) { counts_[counter] += count; });
}

void Counts::add(const Distribution& distribution) {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (counts_.empty()) flush();
  for (const Bin& bin : distribution.bins)
    counts_[counter_of(static_cast<float>(std::clamp(bin.middle(), -kMost, kMost)))] += bin.count;
}

// Calls `use(counter, count)` for the counters that are not 0, ascending.
template <class Use>
void Counts::for_each_count(const Use& use) const {
  std::vector<uint32_t> sorted = few_;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size();) {
    const size_t first = i;
    while (i < sorted.size() && sorted[i] == sorted[first]) ++i;
    use(sorted[first], uint64_t{i - first});
  }
  for (uint32_t i = 0; i < recent_.size(); ++i)
    if (const uint64_t count = recent_[i] + (counts_.empty() ? 0 : counts_[i]); count > 0) use(i, count);
}

template <class RangeOf>
Distribution Counts::sorted(const RangeOf& range_of, bool are_narrow) const {
  Distribution out;
  for_each_count([&](uint32_t i, uint64_t count) {
    const auto [first, last] = range_of(i);
    if (std::isfinite(first)) {
      out.bins.push_back({std::min(first, last), std::max(first, last), count, i});
      out.count += count;
    } else if (are_narrow) {
      (std::isnan(first) ? out.nan : out.inf) += count;
    }
  });
  // Bits of negative numbers ascend as their absolutes; -0 comes before 0.
  std::ranges::sort(out.bins, [](const Bin& a, const Bin& b) {
    return a.low != b.low ? a.low < b.low : std::signbit(a.low + a.high) > std::signbit(b.low + b.high);
  });
  return out;
}

Distribution Counts::distribution(const Elements& elements) const {
  const auto value_of = [&](uint32_t counter) {
    const double value = elements.value_of(static_cast<uint16_t>(counter));
    return NumberRange{value, value};
  };
  if (elements.are_narrow()) return sorted(value_of, true);
  return elements.form() == Form::doubles ? sorted(range_of_double, false) : distribution();
}

Distribution Counts::distribution() const { return sorted(range_of_float, false); }

double Distribution::at(uint64_t rank) const {
  for (const Bin& bin : bins) {
    if (rank >= bin.count) {
      rank -= bin.count;
      continue;
    }
    if (bin.middle() == 0) return 0;
    const double part = (static_cast<double>(rank) + 0.5) / static_cast<double>(bin.count);
    return bin.low + (bin.high - bin.low) * part;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

uint64_t Distribution::below(double threshold) const {
  uint64_t found = 0;
  for (const Bin& bin : bins)
    if (std::max(std::abs(bin.low), std::abs(bin.high)) < threshold) found += bin.count;
  return found;
}

// The difference of the two limits may overflow, so halves are used.
size_t interval_of(double value, double min, double max, size_t bins) {
  const double half = max / 2 - min / 2;
  const double factor = static_cast<double>(bins) / half;
  if (!(half > 0 && factor < std::numeric_limits<double>::infinity())) return 0;
  const double position = std::clamp((value / 2 - min / 2) * factor, 0.0, static_cast<double>(bins - 1));
  return static_cast<size_t>(position);
}

std::vector<uint64_t> Distribution::histogram(double min, double max, size_t intervals) const {
  std::vector<uint64_t> out(intervals);
  for (const Bin& bin : bins) out[interval_of(bin.middle(), min, max, intervals)] += bin.count;
  return out;
}

std::vector<Octave> Distribution::octaves() const {
  std::map<int, Octave> found;
  for (const Bin& bin : bins) {
    const double middle = bin.middle();
    if (middle == 0) continue;
    const int exponent = std::ilogb(middle);
    Octave& octave = found.try_emplace(exponent, Octave{exponent, 0, 0}).first->second;
    (middle < 0 ? octave.negative : octave.positive) += bin.count;
  }
  std::vector<Octave> out;
  for (const auto& [exponent, octave] : found) out.push_back(octave);
  return out;
}

}  // namespace weightfs::numbers
