// What an input costs: bytes allocated, bytes read, CPU time.
#pragma once

#include <cstdint>

namespace weightfs::test {

/// Counts allocations of the whole process (malloc, operator new, libraries): from the sanitizer's hooks where there
/// is one that has them, else from a malloc of our own around glibc's.
class AllocationCounter {
 public:
  AllocationCounter();    ///< begins to count; one at a time
  uint64_t peak() const;  ///< the most bytes that were allocated at one time since, beyond those from before
};

/// CPU time of the calling thread in nanoseconds.
uint64_t thread_cpu_time();

}  // namespace weightfs::test
