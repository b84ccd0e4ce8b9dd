// How often numbers occur, by the leading bits of their patterns: quantiles and histograms come from these counts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "numbers/elements.h"

namespace weightfs::numbers {

/// The numbers from `low` to `high`, and how many there are. Both are equal if 16 bits determine a number; else `high`
/// has the same sign and exponent as `low` and the same seven bits behind them, so it is less than 2^-7 away.
/// Numbers next to 0 (below 2^-133 of floats) are counted with it.
struct Bin {
  double low;
  double high;
  uint64_t count;
  uint32_t index;  ///< of its counter

  double middle() const { return low == 0 || high == 0 ? 0 : low / 2 + high / 2; }
};

/// Numbers from 2^exponent to less than 2^(exponent + 1), and those with the other sign.
struct Octave {
  int exponent;
  uint64_t negative;
  uint64_t positive;
};

/// The counts of finite numbers in ascending order, and of the others.
struct Distribution {
  std::vector<Bin> bins;  ///< without empty ones
  uint64_t count = 0;     ///< of the numbers in them
  uint64_t nan = 0;       ///< only of narrow elements (Elements::are_narrow), as inf; else 0
  uint64_t inf = 0;

  /// The number at a place in ascending order, from 0 to count - 1: exact if bins are single numbers, else as if those
  /// of a bin were evenly apart.
  double at(uint64_t rank) const;
  /// The numbers with an absolute below `threshold`; of the bin that has it, all or none.
  uint64_t below(double threshold) const;
  /// Numbers in `bins` intervals of equal width from `min` to `max`. Those of a bin are all in the interval of its
  /// middle.
  std::vector<uint64_t> histogram(double min, double max, size_t bins) const;
  /// The numbers other than 0 by their exponents, ascending; without empty ones.
  std::vector<Octave> octaves() const;
};

/// Counters of patterns: 65,536 of 16 bits; of doubles 524,288, of their upper 19 bits, which have the same seven bits
/// of the mantissa as those of a float. There is no table of counters before there are numbers for a part of them: a
/// model may have a million tensors of one element.
class Counts {
 public:
  explicit Counts(Form form) : form_(form) {}

  void add(std::span<const uint16_t> block);
  void add(std::span<const float> block);
  void add(std::span<const double> block);
  void add(const Counts& other);
  /// Adds the numbers of elements of any type to counts of floats: those of a bin by its middle.
  void add(const Distribution& distribution);

  /// In ascending order. `elements` are those that were added, or have the same type.
  Distribution distribution(const Elements& elements) const;
  /// As distribution(elements), if floats that are not narrow were added.
  Distribution distribution() const;

  /// The bits of a double below those of its counter.
  static constexpr unsigned kDoubleRest = 45;

 private:
  template <class T>
  void add_block(std::span<const T> block);
  template <class RangeOf>
  Distribution sorted(const RangeOf& range_of, bool are_narrow) const;
  template <class Use>
  void for_each_count(const Use& use) const;
  void make_table();
  void flush();

  Form form_;
  std::vector<uint32_t> few_;     // the counter of each number, while there is no table
  std::vector<uint32_t> recent_;  // since the last flush; empty while there is no table
  uint64_t added_ = 0;            // to recent_: no counter overflows
  std::vector<uint64_t> counts_;  // empty before the first flush
};

/// The place of a number among `bins` intervals of equal width from `min` to `max`.
size_t interval_of(double value, double min, double max, size_t bins);

}  // namespace weightfs::numbers
