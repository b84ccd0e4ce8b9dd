// Fuzz targets: one for each parser, and one that mounts whole models. A target limits the cost of an input, so that
// the fuzzer finds amplification as well as crashes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weightfs::test {

/// The cost limit of an input: a fixed part, and a part for each byte of the input.
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

/// The container that an input is, with the files beside it.
struct ReadAs {
  const char* file_name;
  std::string_view format;  ///< as `--format` takes it
};

struct Target {
  std::string_view name;                          ///< also the name of its folder in tests/fuzz/corpus
  void (*run)(std::string_view input) = nullptr;  ///< aborts if a check fails; null: reads the input as `reads`
  ReadAs reads = {};
  Limits limits;
  Mutate mutate = nullptr;                       ///< structure-aware; null: only libFuzzer's mutations
  void (*repair)(std::string& input) = nullptr;  ///< corrects checksums, counts and offsets
};

/// Every target.
std::span<const Target* const> targets();

/// The measured cost of an input.
struct Measured {
  uint64_t memory;  ///< peak of the bytes allocated
  uint64_t read;    ///< bytes read from the input's sources
  uint64_t time;    ///< nanoseconds of CPU
};

/// Runs the target and aborts if it exceeds its limits of memory and of bytes read. The caller checks the time. The
/// environment variable WEIGHTFS_FUZZ_COSTS names a file for one line per input, from which limits are derived: target,
/// size, memory, read, time.
Measured run_checked(const Target& target, std::string_view input);

/// The CPU time limit of an input of this size, in nanoseconds.
inline uint64_t time_limit(const Target& target, size_t size) {
  return target.limits.time + target.limits.time_per_byte * size;
}

/// Reports a failed check and aborts, which libFuzzer records as a finding.
[[noreturn]] void complain(const std::string& what);

}  // namespace weightfs::test
