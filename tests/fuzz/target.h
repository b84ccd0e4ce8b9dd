// Fuzz targets: one for each parser, and one that mounts whole models. A target states what an input may cost, so that
// the fuzzer finds amplification and not only crashes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weightfs::test {

/// What one input may cost: a fixed part, and a part for each byte of the input.
struct Limits {
  uint64_t memory;  ///< peak of the bytes allocated while it runs
  uint64_t memory_per_byte;
  uint64_t read = 100'000;  ///< bytes read from the sources of the input
  uint64_t read_per_byte = 16;
  uint64_t time = 50'000'000;  ///< nanoseconds of CPU; checked by the fuzzer only
  uint64_t time_per_byte = 20'000;
};

class Random;

/// Changes `input`, which has at most `max_size` bytes afterwards.
using Mutate = void (*)(std::string& input, size_t max_size, Random& random);

struct Target {
  std::string_view name;                ///< also of its folder in tests/fuzz/corpus
  void (*run)(std::string_view input);  ///< aborts where the parser breaks a promise
  Limits limits;
  Mutate mutate = nullptr;                       ///< structure-aware; null: only libFuzzer's mutations
  void (*repair)(std::string& input) = nullptr;  ///< makes checksums, counts and offsets right again
};

/// Every target. A fuzzer links only the one that it runs; the replay links all.
std::span<const Target* const> targets();

/// What running an input cost.
struct Measured {
  uint64_t memory;  ///< peak of the bytes allocated
  uint64_t read;    ///< bytes read from the input's sources
  uint64_t time;    ///< nanoseconds of CPU
};

/// Runs the target and aborts when it exceeds its limits of memory and of bytes read. The time is left to the caller.
/// The environment variable WEIGHTFS_FUZZ_COSTS names a file that gets a line per input, from which limits are set:
/// target, size, memory, read, time.
Measured run_checked(const Target& target, std::string_view input);

/// Nanoseconds of CPU that an input of this size may take.
inline uint64_t time_limit(const Target& target, size_t size) {
  return target.limits.time + target.limits.time_per_byte * size;
}

/// Reports a broken promise and aborts, which is what libFuzzer takes for a finding.
[[noreturn]] void complain(const std::string& what);

}  // namespace weightfs::test
