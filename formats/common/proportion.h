// The cached bytes of a source that is computed from stored bytes of another size.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/source.h"

namespace weightfs {

/// Of a range of `made` bytes that is computed from `stored` bytes, of which these are cached: as large a part of it,
/// all of it only if all are cached.
inline CachedBytes in_proportion(const CachedBytes& cached, uint64_t stored, uint64_t made) {
  const auto of_made = [&](uint64_t bytes) {
    if (bytes >= stored || made == 0) return made;
    const double share = static_cast<double>(bytes) / static_cast<double>(stored);
    return std::min(static_cast<uint64_t>(share * static_cast<double>(made)), made - 1);
  };
  return {of_made(cached.now), of_made(cached.before)};
}

}  // namespace weightfs
