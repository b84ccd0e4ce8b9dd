#include "fs/reading/access_pattern.h"

#include <algorithm>

namespace weightfs {

std::vector<ByteRange> AccessPattern::next_after(ByteRange read, uint64_t size) {
  constexpr uint64_t kMinRepeats = 2;
  if (read.from >= std::min(read.to, size)) return {};
  const std::scoped_lock lock(mutex_);
  const uint64_t distance = read.from - std::min(read.from, last_);
  last_ = read.from;
  if (distance != distance_) {
    distance_ = distance;
    repeats_ = requested_ = 0;
    return {};
  }
  const uint64_t length = read.to - read.from;
  if (distance <= length || ++repeats_ < kMinRepeats) return {};
  std::vector<ByteRange> ranges;
  uint64_t from = read.from;
  for (uint64_t i = 0; i < kAhead && distance < size - from; ++i) {
    from += distance;
    if (from <= requested_) continue;
    ranges.push_back({from, from + std::min(length, size - from)});
    requested_ = from;
  }
  return ranges;
}

}  // namespace weightfs
