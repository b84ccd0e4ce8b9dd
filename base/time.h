#pragma once

#include <chrono>
#include <cstdint>

namespace weightfs {

/// Nanoseconds since 1970-01-01 UTC.
using Time = int64_t;

inline Time time_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace weightfs
