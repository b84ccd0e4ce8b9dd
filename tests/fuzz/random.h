// Choices of a mutation, repeatable from a seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

namespace weightfs::test {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  /// 0 to `count` - 1; 0 when `count` is 0.
  size_t below(size_t count) { return count == 0 ? 0 : engine_() % count; }

  /// 1 to `most`, small numbers as often as large ones.
  size_t scaled(size_t most) {
    size_t limit = 1;
    while (limit < most && below(8) != 0) limit *= 2;
    return 1 + below(std::min(limit, std::max<size_t>(most, 1)));
  }

  uint64_t bits() { return uint64_t{engine_()} << 32 | engine_(); }

 private:
  std::minstd_rand engine_;
};

}  // namespace weightfs::test
