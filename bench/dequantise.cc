// The rate at which ranges of quantised tensors become float32, and that of memcpy. Built twice: `dequantise` as
// weightfs is, and `dequantise_scalar` without vector instructions. Prints "TYPE BYTES-PER-SECOND" for each type, of
// float32.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "formats/float32.h"

namespace weightfs {
namespace {

constexpr size_t kRequest = size_t{1} << 20;  // the largest read(2) that FUSE passes on
constexpr size_t kRequests = 8;
constexpr int kRepeats = 20;

using Clock = std::chrono::steady_clock;

// The best of several rates.
template <class Work>
double rate_of(const Work& work) {
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = Clock::now();
    work();
    const std::chrono::duration<double> spent = Clock::now() - start;
    best = std::max(best, static_cast<double>(kRequest * kRequests) / spent.count());
  }
  return best;
}

// Random bits with small exponents, because operations with subnormal numbers and NaNs take longer.
std::string random_blocks(size_t size) {
  std::mt19937_64 random(1);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() & 0x3F);
  return bytes;
}

int measure() {
  std::vector<std::byte> out(kRequest);
  constexpr size_t kElements = kRequest * kRequests / sizeof(float);
  for (const char* name :
       {"q4_0",   "q4_1",  "q5_0",    "q5_1",  "q8_0",   "q2_k",   "q3_k",    "q4_k",     "q5_k",          "q6_k",
        "q8_k",   "q1_0",  "q2_0",    "tq1_0", "tq2_0",  "mxfp4",  "nvfp4",   "iq1_s",    "iq1_m",         "iq2_xxs",
        "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs", "float16", "bfloat16", "float8_e4m3fn", "int8"}) {
    Tensor tensor;
    tensor.dtype = dtype_named(name);
    tensor.shape = {kElements};
    const uint64_t size = size_in_bytes(*tensor.dtype, tensor.shape).value();
    tensor.source = slice(in_memory(random_blocks(size)), 0, size).value();
    const SourcePtr values = float32_values(tensor);
    bool failed = false;
    const double rate = rate_of([&] {
      for (size_t i = 0; i < kRequests; ++i) failed = failed || values->read(i * kRequest, out).value_or(0) != kRequest;
    });
    if (failed) return 1;
    std::printf("%s %.0f\n", name, rate);
  }
  std::vector<std::byte> from(kRequest * kRequests, std::byte{1});
  const double rate = rate_of([&] {
    for (size_t i = 0; i < kRequests; ++i) {
      std::memcpy(out.data(), from.data() + i * kRequest, kRequest);
      asm volatile("" : : "r"(out.data()) : "memory");  // the copy is not left out
    }
  });
  std::printf("memcpy %.0f\n", rate);
  return 0;
}

}  // namespace
}  // namespace weightfs

int main() { return weightfs::measure(); }
