// The entry points of libFuzzer. `fuzzer --target=NAME` fuzzes one target: libFuzzer ignores options that start with
// `--`.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/text.h"
#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed);
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace weightfs;
using namespace weightfs::test;

#ifdef WEIGHTFS_SANITIZED
constexpr uint64_t kSlowdown = 10;
#else
constexpr uint64_t kSlowdown = 1;
#endif

const Target* fuzzed = nullptr;

// CPU time depends on the machine's load: an input is slow if it is slow three times.
void check_time(std::string_view input, uint64_t time) {
  const uint64_t limit = kSlowdown * time_limit(*fuzzed, input.size());
  for (int tries = 0; tries < 2 && time > limit; ++tries) time = std::min(time, run_checked(*fuzzed, input).time);
  if (time > limit)
    complain(fmt::format("{}: {} bytes take {} ms of CPU, limit {} ms", fuzzed->name, input.size(), time / 1'000'000,
                         limit / 1'000'000));
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  constexpr std::string_view kOption = "--target=";
  for (const std::string_view argument : std::span(*arguments, static_cast<size_t>(*count)))
    for (const Target* target : targets())
      if (argument.starts_with(kOption) && argument.substr(kOption.size()) == target->name) fuzzed = target;
  if (fuzzed == nullptr) {
    fmt::print(stderr, "fuzzer: --target=NAME must name a target, which is a folder of tests/fuzz/corpus\n");
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_time(input, run_checked(*fuzzed, input).time);
  return 0;
}

// Half of the mutations are libFuzzer's own, with its dictionary.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  const bool structured = fuzzed->mutate != nullptr && random.below(2) == 0;
  if (!structured) size = LLVMFuzzerMutate(data, size, max_size);
  std::string input(reinterpret_cast<const char*>(data), size);
  if (structured) fuzzed->mutate(input, max_size, random);
  if (fuzzed->repair != nullptr && random.below(8) != 0) fuzzed->repair(input);
  size = std::min(input.size(), max_size);
  std::memcpy(data, input.data(), size);
  return size;
}
