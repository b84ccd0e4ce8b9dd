// Measures the cost of an input: bytes allocated, bytes read, CPU time.
#pragma once

#include <cstdint>

namespace weightfs::test {

/// Counts allocations of the whole process (malloc, operator new, libraries): by the sanitizer's hooks if available,
/// else by a malloc around glibc's.
class AllocationCounter {
 public:
  AllocationCounter();    ///< starts counting; only one may exist
  uint64_t peak() const;  ///< the peak of allocated bytes since then, without those allocated before
};

/// CPU time of the calling thread in nanoseconds.
uint64_t thread_cpu_time();

}  // namespace weightfs::test
