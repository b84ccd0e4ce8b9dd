// Measures gathering outside of a mount: a block of a transposed matrix in memory, against copying as many bytes.
// Prints a line for each size of elements: bytes of an element, then of both the bytes per second of processor time.
// That varies less than a rate on a busy machine.
#include "formats/common/gather.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

namespace {

constexpr uint64_t kBlockBytes = uint64_t{16} << 20;  // as many as a mount gathers at once
constexpr uint64_t kColumns = 8192;
constexpr int kRounds = 9;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <class Work>
double fastest(const Work& work) {
  double least = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = processor_seconds();
    work();
    least = std::min(least, processor_seconds() - begin);
  }
  return static_cast<double>(kBlockBytes) / least;
}

}  // namespace

int main() {
  const std::string stored(kBlockBytes, 'x');
  const weightfs::SourcePtr storage = weightfs::in_memory(stored);
  std::vector<std::byte> out(kBlockBytes);
  for (const uint32_t width : {1U, 2U, 4U, 8U}) {
    const uint64_t rows = kBlockBytes / kColumns / width;
    const std::array<weightfs::BoxDimension, 2> box{{{rows, 1, kColumns}, {kColumns, rows, 1}}};
    bool is_whole = true;
    const double gathered = fastest([&] { is_whole &= weightfs::gather(*storage, 0, width, box, out).has_value(); });
    const double copied = fastest([&] { std::memcpy(out.data(), stored.data(), kBlockBytes); });
    if (!is_whole) return 1;
    std::printf("%u %.0f %.0f\n", width, gathered, copied);
  }
}
