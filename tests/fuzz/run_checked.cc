#include <fmt/core.h>

#include <cstdlib>
#include <fstream>

#include "base/text.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/measure.h"
#include "tests/fuzz/target.h"

namespace weightfs::test {

Measured run_checked(const Target& target, std::string_view input) {
  const uint64_t read_before = counted_bytes();
  const AllocationCounter allocations;
  const uint64_t begin = thread_cpu_time();
  if (target.run != nullptr)
    target.run(input);
  else
    read_checked(parse_input(input).named(target.reads.file_name), target.reads.format);
  const Measured cost = {allocations.peak(), counted_bytes() - read_before, thread_cpu_time() - begin};
  if (static const char* const costs = std::getenv("WEIGHTFS_FUZZ_COSTS"); costs != nullptr)
    std::ofstream(costs, std::ios::app) << fmt::format("{} {} {} {} {}\n", target.name, input.size(), cost.memory,
                                                       cost.read, cost.time);
  const uint64_t memory = target.limits.memory + target.limits.memory_per_byte * input.size();
  if (cost.memory > memory)
    complain(fmt::format("{}: {} bytes allocate {}, limit {}", target.name, input.size(), cost.memory, memory));
  const uint64_t read = target.limits.read + target.limits.read_per_byte * input.size();
  if (cost.read > read)
    complain(fmt::format("{}: {} bytes read as {}, limit {}", target.name, input.size(), cost.read, read));
  return cost;
}

}  // namespace weightfs::test
