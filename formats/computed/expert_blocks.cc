#include "formats/computed/expert_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

namespace weightfs::computed {
namespace {

constexpr uint64_t kBlock = 32;       // inputs that share a scale
constexpr uint64_t kBlockBytes = 16;  // two inputs in each, the first in the lower half

constexpr std::array<float, 16> kE2M1 = {0, .5F, 1, 1.5F, 2, 3, 4, 6, -0.F, -.5F, -1, -1.5F, -2, -3, -4, -6};

// The numbers by the stored exponents.
const std::array<float, 256> kScales = [] {
  std::array<float, 256> scales{};
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = std::ldexp(1.F, static_cast<int>(i) - 127);
  return scales;
}();

class ExpertBlocks final : public Matrix {
 public:
  ExpertBlocks(const TensorView& blocks, const TensorView& scales)
      : experts_(blocks.shape[0]),
        outputs_(blocks.shape[1]),
        blocks_(blocks.shape[2]),
        codes_(std::make_shared<Slice>(blocks.source)),
        scales_(std::make_shared<Slice>(scales.source)) {}

  uint64_t rows() const override { return experts_ * inputs(); }
  uint64_t columns() const override { return outputs_; }
  std::vector<uint64_t> shape() const override { return {experts_, inputs(), outputs_}; }
  std::vector<SourcePtr> parts() const override { return {codes_, scales_}; }

  Result<void> compute(uint64_t first, std::span<float> out, Reading reading) const override {
    while (!out.empty()) {
      const uint64_t input = first % inputs();
      const uint64_t count = std::min(out.size() / outputs_, inputs() - input);
      const auto size = static_cast<size_t>(count * outputs_);
      TRY_VOID(compute_expert(first / inputs(), input, out.first(size), reading));
      out = out.subspan(size);
      first += count;
    }
    return {};
  }

 private:
  uint64_t inputs() const { return blocks_ * kBlock; }

  Result<void> compute_expert(uint64_t expert, uint64_t first, std::span<float> out, Reading reading) const {
    const uint64_t last = first + out.size() / outputs_ - 1;
    const Columns bytes{blocks_ * kBlockBytes, expert * outputs_ * blocks_ * kBlockBytes + first / 2,
                        last / 2 - first / 2 + 1, outputs_};
    const Columns exponents{blocks_, expert * outputs_ * blocks_ + first / kBlock, last / kBlock - first / kBlock + 1,
                            outputs_};
    std::vector<std::byte> codes(static_cast<size_t>(bytes.width * outputs_));
    std::vector<std::byte> scales(static_cast<size_t>(exponents.width * outputs_));
    TRY_VOID(read_columns(*codes_, bytes, codes, reading));
    TRY_VOID(read_columns(*scales_, exponents, scales, reading));
    for (uint64_t input = first; input <= last; ++input)
      for (uint64_t output = 0; output < outputs_; ++output) {
        const auto pair = std::to_integer<unsigned>(codes[output * bytes.width + input / 2 - first / 2]);
        const auto scale = std::to_integer<uint8_t>(scales[output * exponents.width + input / kBlock - first / kBlock]);
        out[(input - first) * outputs_ + output] = kE2M1[pair >> input % 2 * 4 & 15U] * kScales[scale];
      }
    return {};
  }

  uint64_t experts_;
  uint64_t outputs_;
  uint64_t blocks_;  // of a row
  SourcePtr codes_;
  SourcePtr scales_;
};

}  // namespace

Result<MatrixPtr> mxfp4_matrix(ModulePieces& pieces) {
  const TensorView blocks = TRY(pieces.take("blocks", {"uint8"}));
  const ShapeView sizes = blocks.shape;
  const auto is_size = [](uint64_t size) { return size > 0 && size <= kMaxColumns; };
  if (sizes.size() != 4 || sizes[3] != kBlockBytes || !std::ranges::all_of(sizes, is_size))
    return failure(other_form("blocks", blocks, "experts, outputs, blocks and 16"));
  const TensorView scales = TRY(pieces.take("scales", {"uint8"}, {sizes[0], sizes[1], sizes[2]}));
  return std::make_unique<const ExpertBlocks>(blocks, scales);
}

}  // namespace weightfs::computed
