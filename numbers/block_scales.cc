#include "numbers/block_scales.h"

#include <algorithm>
#include <cmath>

#include "formats/float32.h"

namespace weightfs::numbers {
namespace {

constexpr uint64_t kBlocksOfRead = 4096;
constexpr uint64_t kMaxChunks = 1024;
constexpr double kThreshold = 0;  // of near_zero, which is not used

// The numbers of one kind of a part of the blocks.
struct ScalePart {
  Moments moments;
  uint64_t nan = 0;
  uint64_t inf = 0;

  void add(std::vector<float> numbers, Counts& counts) {
    std::erase_if(numbers, [this](float number) {
      nan += std::isnan(number) ? 1U : 0U;
      inf += std::isinf(number) ? 1U : 0U;
      return !std::isfinite(number);
    });
    counts.add(std::span<const float>(numbers));
    moments.add(std::span<const float>(numbers));
  }
  void add(const ScalePart& other) {
    moments.add(other.moments);
    nan += other.nan;
    inf += other.inf;
  }
};

struct BothCounts {
  Counts scales = Counts(Form::floats);
  Counts minimums = Counts(Form::floats);

  void add(const BothCounts& other) {
    scales.add(other.scales);
    minimums.add(other.minimums);
  }
};

Statistics scale_statistics(const ScalePart& part, const Counts& counts) {
  Statistics out;
  out.nan = part.nan;
  out.inf = part.inf;
  out.zeros = part.moments.zeros();
  out.count = out.elements = part.moments.count() + part.nan + part.inf;
  if (part.moments.count() == 0) return out;
  out.finite.emplace().moments = part.moments;
  set_from_distribution(counts.distribution(), kThreshold, *out.finite);
  return out;
}

}  // namespace

Result<std::optional<ScaleStatistics>> scale_statistics_of(const TensorView& tensor, size_t threads,
                                                           const CountBytes& count_bytes) {
  const BlockScales* const type = block_scales_of(*tensor.dtype);
  if (type == nullptr || tensor.source.refused()) return std::nullopt;
  const uint64_t blocks = tensor.nbytes() / type->block_bytes;
  const uint64_t each = (blocks / kMaxChunks / kBlocksOfRead + 1) * kBlocksOfRead;
  const uint64_t chunks = blocks / each + (blocks % each == 0 ? 0 : 1);
  std::vector<std::pair<ScalePart, ScalePart>> parts(static_cast<size_t>(chunks));
  PerThread<BothCounts> counters([] { return BothCounts(); });
  const auto read_blocks = [&](uint64_t first, uint64_t count, auto& part, BothCounts& counts) -> Result<void> {
    std::vector<std::byte> bytes(static_cast<size_t>(count) * type->block_bytes);
    TRY_VOID(read_exact(tensor.source, first * type->block_bytes, bytes));
    std::vector<float> scales(static_cast<size_t>(count) * type->scales);
    std::vector<float> minimums(static_cast<size_t>(count) * type->minimums);
    for (size_t i = 0; i < count; ++i)
      type->read(bytes.data() + i * type->block_bytes, scales.data() + i * type->scales,
                 minimums.data() + i * type->minimums);
    count_bytes(bytes.size());
    part.first.add(std::move(scales), counts.scales);
    part.second.add(std::move(minimums), counts.minimums);
    return {};
  };
  const auto add_chunk = [&](uint64_t chunk) -> Result<void> {
    return counters.with([&](BothCounts& counts) -> Result<void> {
      const uint64_t end = std::min((chunk + 1) * each, blocks);
      for (uint64_t first = chunk * each; first < end; first += kBlocksOfRead)
        TRY_VOID(read_blocks(first, std::min(kBlocksOfRead, end - first), parts[static_cast<size_t>(chunk)], counts));
      return {};
    });
  };
  TRY_VOID(in_parallel(chunks, threads, add_chunk));
  ScalePart scales, minimums;
  for (const auto& [of_scales, of_minimums] : parts) {
    scales.add(of_scales);
    minimums.add(of_minimums);
  }
  const BothCounts counts = counters.total();
  ScaleStatistics out{scale_statistics(scales, counts.scales), std::nullopt};
  if (type->minimums > 0) out.minimums = scale_statistics(minimums, counts.minimums);
  return out;
}

}  // namespace weightfs::numbers
