// Counts the mutexes that a thread locks.
#pragma once

#include <cstdint>

namespace weightfs::test {

/// How often this thread has locked a mutex. Always 0 under ThreadSanitizer.
uint64_t locks_taken();

}  // namespace weightfs::test
