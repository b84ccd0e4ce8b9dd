// The libFuzzer entry points of one target, WEIGHTFS_FUZZ_TARGET.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/text.h"
#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed);
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace weightfs;
using namespace weightfs::test;

const Target& target = WEIGHTFS_FUZZ_TARGET;

// CPU time depends on the machine's load: an input is slow if it is slow three times.
void check_time(std::string_view input, uint64_t time) {
  const uint64_t limit = time_limit(target, input.size());
  for (int tries = 0; tries < 2 && time > limit; ++tries) time = std::min(time, run_checked(target, input).time);
  if (time > limit)
    complain(fmt::format("{}: {} bytes take {} ms of CPU, limit {} ms", target.name, input.size(), time / 1'000'000,
                         limit / 1'000'000));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_time(input, run_checked(target, input).time);
  return 0;
}

// Half of the mutations are libFuzzer's own, with its dictionary.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  const bool structured = target.mutate != nullptr && random.below(2) == 0;
  if (!structured) size = LLVMFuzzerMutate(data, size, max_size);
  std::string input(reinterpret_cast<const char*>(data), size);
  if (structured) target.mutate(input, max_size, random);
  if (target.repair != nullptr && random.below(8) != 0) target.repair(input);
  size = std::min(input.size(), max_size);
  std::memcpy(data, input.data(), size);
  return size;
}
