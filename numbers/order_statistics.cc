#include "numbers/order_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weightfs::numbers {
namespace {

// The bits of a number, its counter first; the rest follows in digits.
struct Layout {
  unsigned rest;   // bits behind the counter
  unsigned digit;  // bits of a digit, which a pass counts
};

constexpr Layout kFloats = {16, 16};
constexpr Layout kDoubles = {Counts::kDoubleRest, 15};

// A prefix of the bits of numbers, and the places that are looked for among the numbers that have it.
struct Group {
  uint64_t prefix;
  bool is_negative;
  std::vector<std::pair<size_t, uint64_t>> wanted;  // index of the result; place among these numbers, ascending
};

// How often each next digit follows each prefix.
struct DigitCounts {
  std::vector<uint64_t> counts;

  void add(const DigitCounts& other) {
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  }
};

// So many numbers are sorted, which takes one pass and less memory than the counters of digits.
constexpr uint64_t kMaxSorted = uint64_t{1} << 16;

uint64_t elements_in(std::span<const ElementRange> chunks) {
  uint64_t total = 0;
  for (const ElementRange& chunk : chunks) total += chunk.count;
  return total;
}

struct FiniteNumbers {
  std::vector<double> numbers;

  void add(const FiniteNumbers& other) { numbers.insert(numbers.end(), other.numbers.begin(), other.numbers.end()); }
};

Result<std::vector<double>> sort_numbers_at(const Elements& elements, std::span<const ElementRange> chunks,
                                            std::span<const uint64_t> places, const CountBytes& count_bytes) {
  const auto add = [](FiniteNumbers& all, uint64_t, auto block) {
    for (const auto value : block)
      if (std::isfinite(value)) all.numbers.push_back(static_cast<double>(value));
  };
  std::vector<double> all = TRY(sum_over<FiniteNumbers>(
                                    elements, chunks, 1, count_bytes, [] { return FiniteNumbers(); }, add))
                                .numbers;
  std::ranges::sort(all, [](double a, double b) { return a != b ? a < b : std::signbit(a) > std::signbit(b); });
  std::vector<double> out(places.size());
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i] < all.size()) out[i] = all[static_cast<size_t>(places[i])];  // else the file has changed
  return out;
}

class Search {
 public:
  Search(const Elements& elements, std::span<const ElementRange> chunks, size_t threads, const CountBytes& count_bytes)
      : elements_(elements),
        chunks_(chunks),
        threads_(threads),
        count_bytes_(count_bytes),
        layout_(elements.form() == Form::doubles ? kDoubles : kFloats) {}

  Result<std::vector<double>> find(const Distribution& distribution, std::span<const uint64_t> places) {
    std::vector<double> out(places.size());
    std::vector<Group> groups = groups_of(distribution, places, out);
    for (unsigned rest = layout_.rest; rest > 0 && !groups.empty(); rest -= layout_.digit) {
      const DigitCounts counted = TRY(count_digits(groups, rest - layout_.digit));
      groups = narrowed(groups, counted);
    }
    for (const Group& group : groups)
      for (const auto& [index, place] : group.wanted) out[index] = number_of(group.prefix);
    return out;
  }

 private:
  // The bins that have the places. Those that are single numbers are results.
  std::vector<Group> groups_of(const Distribution& distribution, std::span<const uint64_t> places,
                               std::vector<double>& out) const {
    std::vector<Group> groups;
    uint64_t first = 0;
    for (const Bin& bin : distribution.bins) {
      Group group = {bin.index, std::signbit(bin.low + bin.high), {}};
      for (size_t i = 0; i < places.size(); ++i) {
        if (places[i] < first || places[i] - first >= bin.count) continue;
        out[i] = bin.low;
        group.wanted.emplace_back(i, places[i] - first);
      }
      if (!group.wanted.empty() && !elements_.are_narrow()) groups.push_back(std::move(group));
      first += bin.count;
    }
    std::ranges::sort(groups, {}, &Group::prefix);
    return groups;
  }

  Result<DigitCounts> count_digits(const std::vector<Group>& groups, unsigned shift) const {
    constexpr size_t kMaxMemory = size_t{24} << 20;  // of all threads
    const size_t digits = size_t{1} << layout_.digit;
    const size_t bytes = groups.size() * digits * sizeof(uint64_t);
    // Most numbers are in none of the groups, which one byte says.
    const unsigned below = shift + layout_.digit;
    std::vector<uint8_t> is_wanted(size_t{1} << (bits() - layout_.rest));
    for (const Group& group : groups) is_wanted[static_cast<size_t>(group.prefix >> (layout_.rest - below))] = 1;
    const auto count = [&](uint64_t number, std::vector<uint64_t>& counts) {
      if (is_wanted[static_cast<size_t>(number >> layout_.rest)] == 0) return;
      const auto group = std::ranges::lower_bound(groups, number >> below, {}, &Group::prefix);
      if (group == groups.end() || group->prefix != number >> below) return;
      const auto row = static_cast<size_t>(group - groups.begin());
      ++counts[row * digits + static_cast<size_t>(number >> shift & (digits - 1))];
    };
    const auto add = [&](DigitCounts& counted, uint64_t, auto block) {
      for (const auto value : block) count(bits_of(value), counted.counts);
    };
    const auto make = [&] { return DigitCounts{std::vector<uint64_t>(groups.size() * digits)}; };
    const size_t workers = std::clamp<size_t>(kMaxMemory / bytes, 1, threads_);
    return sum_over<DigitCounts>(elements_, chunks_, workers, count_bytes_, make, add);
  }

  // The groups with one more digit. Of negative numbers larger digits come first.
  std::vector<Group> narrowed(const std::vector<Group>& groups, const DigitCounts& counted) const {
    const uint64_t digits = uint64_t{1} << layout_.digit;
    std::vector<Group> out;
    for (size_t row = 0; row < groups.size(); ++row) {
      const Group& group = groups[row];
      uint64_t first = 0;
      for (uint64_t i = 0; i < digits; ++i) {
        const uint64_t digit = group.is_negative ? digits - 1 - i : i;
        const uint64_t count = counted.counts[static_cast<size_t>(row * digits + digit)];
        if (count == 0) continue;
        Group next = {group.prefix << layout_.digit | digit, group.is_negative, {}};
        for (const auto& [index, place] : group.wanted)
          if (place >= first && place - first < count) next.wanted.emplace_back(index, place - first);
        if (!next.wanted.empty()) out.push_back(std::move(next));
        first += count;
      }
    }
    std::ranges::sort(out, {}, &Group::prefix);
    return out;
  }

  unsigned bits() const { return elements_.form() == Form::doubles ? 64 : 32; }
  static uint64_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
  static uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }
  double number_of(uint64_t number) const {
    if (elements_.form() == Form::doubles) return std::bit_cast<double>(number);
    return std::bit_cast<float>(static_cast<uint32_t>(number));
  }

  const Elements& elements_;
  std::span<const ElementRange> chunks_;
  size_t threads_;
  const CountBytes& count_bytes_;
  Layout layout_;
};

}  // namespace

uint64_t passes_of_numbers_at(Form form, uint64_t elements) {
  if (elements <= kMaxSorted) return 1;
  const Layout layout = form == Form::doubles ? kDoubles : kFloats;
  return layout.rest / layout.digit;
}

Result<std::vector<double>> numbers_at(const Elements& elements, std::span<const ElementRange> chunks,
                                       const Distribution& distribution, std::span<const uint64_t> places,
                                       size_t threads, const CountBytes& count_bytes) {
  if (!elements.are_narrow() && elements_in(chunks) <= kMaxSorted)
    return sort_numbers_at(elements, chunks, places, count_bytes);
  return Search(elements, chunks, threads, count_bytes).find(distribution, places);
}

}  // namespace weightfs::numbers
