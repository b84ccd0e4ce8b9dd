// MXFP4 as gpt-oss stores it: byte i of a group has the elements 2i (lower half) and 2i + 1. A block of ggml has the
// scale, then bytes whose lower halves are the elements 0 to 15, and whose upper ones 16 to 31.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "formats/mapping/operations/joined.h"
#include "formats/mapping/operations/rearranged.h"

namespace weightfs::mapping {
namespace {

constexpr uint64_t kGroupBytes = 16;  // bytes of a group, without its scale
constexpr uint64_t kMxfp4Bytes = 17;  // bytes of a block of ggml
constexpr uint64_t kGroupElements = 32;
constexpr uint64_t kMostGroups = 4096;  // that are repacked at once

void repack(const std::byte* stored, std::byte scale, std::byte* block) {
  block[0] = scale;
  const auto half = [&](size_t element) {
    const std::byte both = stored[element / 2];
    return element % 2 == 0 ? both & std::byte{0x0F} : both >> 4U;
  };
  for (size_t i = 0; i < kGroupBytes; ++i) block[1 + i] = half(i) | half(i + kGroupBytes) << 4U;
}

// Rows of blocks, of which every `step`-th one is taken.
class Mxfp4Blocks final : public Source {
 public:
  Mxfp4Blocks(const Slice& blocks, const Slice& scales, uint64_t rows, uint64_t groups, uint64_t first, uint64_t step)
      : blocks_(blocks), scales_(scales), rows_(rows), groups_(groups), first_(first), step_(step) {}

  uint64_t size() const override { return rows_ * groups_ * kMxfp4Bytes; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t wanted = bytes_inside(size(), offset, out.size());
    for (size_t done = 0; done < wanted;) done += TRY(read_in_row(offset + done, out.subspan(done, wanted - done)));
    return wanted;
  }
  VerifiedBy verification() const override { return worse(blocks_.verification(), scales_.verification()); }
  std::shared_ptr<const void> keep_cached() const override {
    return std::make_shared<const std::array<std::shared_ptr<const void>, 2>>(
        std::array{blocks_.keep_cached(), scales_.keep_cached()});
  }

 private:
  // Reads bytes of one row; returns their number.
  Result<size_t> read_in_row(uint64_t offset, std::span<std::byte> out) const {
    const uint64_t row = offset / (groups_ * kMxfp4Bytes);
    const uint64_t at = offset % (groups_ * kMxfp4Bytes);
    const uint64_t from = at / kMxfp4Bytes;
    const uint64_t skipped = at % kMxfp4Bytes;
    const uint64_t to = std::min({groups_, (at + out.size() + kMxfp4Bytes - 1) / kMxfp4Bytes, from + kMostGroups});
    const uint64_t first = (first_ + row * step_) * groups_ + from;
    const uint64_t count = to - from;
    std::vector<std::byte> stored(count * kGroupBytes);
    std::vector<std::byte> scales(count);
    std::vector<std::byte> blocks(count * kMxfp4Bytes);
    TRY_VOID(read_exact(blocks_, first * kGroupBytes, stored));
    TRY_VOID(read_exact(scales_, first, scales));
    for (size_t i = 0; i < count; ++i) repack(&stored[i * kGroupBytes], scales[i], &blocks[i * kMxfp4Bytes]);
    const auto copied = static_cast<size_t>(std::min<uint64_t>(out.size(), blocks.size() - skipped));
    std::copy_n(blocks.begin() + static_cast<ptrdiff_t>(skipped), copied, out.begin());
    return copied;
  }

  const Slice blocks_;
  const Slice scales_;
  const uint64_t rows_;
  const uint64_t groups_;  // of a row
  const uint64_t first_;
  const uint64_t step_;
};

// The reverse of repack().
void unpack(const std::byte* block, std::byte* stored) {
  const auto half = [&](size_t element) {
    const std::byte both = block[1 + element % kGroupBytes];
    return element < kGroupBytes ? both & std::byte{0x0F} : both >> 4U;
  };
  for (size_t i = 0; i < kGroupBytes; ++i) stored[i] = half(2 * i) | half(2 * i + 1) << 4U;
}

// The blocks or the scales of tensors whose rows alternate.
class UnpackedMxfp4 final : public Source {
 public:
  UnpackedMxfp4(std::vector<Slice> tensors, uint64_t groups, Mxfp4Part part)
      : tensors_(std::move(tensors)), groups_(groups), width_(part == Mxfp4Part::blocks ? kGroupBytes : 1) {}

  uint64_t size() const override { return tensors_.front().size() / kMxfp4Bytes * tensors_.size() * width_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t wanted = bytes_inside(size(), offset, out.size());
    for (size_t done = 0; done < wanted;) done += TRY(read_in_row(offset + done, out.subspan(done, wanted - done)));
    return wanted;
  }
  VerifiedBy verification() const override {
    return worse(tensors_.front().verification(), tensors_.back().verification());
  }
  std::shared_ptr<const void> keep_cached() const override {
    return std::make_shared<const std::array<std::shared_ptr<const void>, 2>>(
        std::array{tensors_.front().keep_cached(), tensors_.back().keep_cached()});
  }

 private:
  Result<size_t> read_in_row(uint64_t offset, std::span<std::byte> out) const {
    const uint64_t row = offset / (groups_ * width_);
    const uint64_t at = offset % (groups_ * width_);
    const uint64_t from = at / width_;
    const uint64_t skipped = at % width_;
    const uint64_t count = std::min({groups_ - from, (skipped + out.size() + width_ - 1) / width_, kMostGroups});
    std::vector<std::byte> blocks(count * kMxfp4Bytes);
    std::vector<std::byte> made(count * width_);
    const uint64_t first = row / tensors_.size() * groups_ + from;
    TRY_VOID(read_exact(tensors_[row % tensors_.size()], first * kMxfp4Bytes, blocks));
    for (size_t i = 0; i < count; ++i) {
      if (width_ == 1)
        made[i] = blocks[i * kMxfp4Bytes];
      else
        unpack(&blocks[i * kMxfp4Bytes], &made[i * kGroupBytes]);
    }
    const auto copied = static_cast<size_t>(std::min<uint64_t>(out.size(), made.size() - skipped));
    std::copy_n(made.begin() + static_cast<ptrdiff_t>(skipped), copied, out.begin());
    return copied;
  }

  const std::vector<Slice> tensors_;
  const uint64_t groups_;  // of a row
  const uint64_t width_;   // bytes of a group
};

}  // namespace

Result<Tensor> mxfp4_part(const std::vector<TensorView>& tensors, Mxfp4Part part) {
  std::vector<Slice> sources;
  const TensorView& first = tensors.front();
  for (const TensorView& each : tensors) {
    if (each.dtype->name != "mxfp4" || each.source.refused() || each.shape.size() != 3 ||
        !(each.shape == first.shape) || each.nbytes() == 0)
      return failure(Code::unsupported,
                     fmt::format("tensor {} is not MXFP4 [experts, rows, columns]", quoted(each.name)));
    sources.push_back(each.source);
  }
  const uint64_t groups = first.shape[2] / kGroupElements;
  Tensor made;
  made.name = first.name;
  made.dtype = dtype_named("uint8");
  made.stored_dtype = "U8";
  made.shape = {first.shape[0], first.shape[1] * tensors.size(), groups};
  if (part == Mxfp4Part::blocks) made.shape.push_back(kGroupBytes);
  const auto source = std::make_shared<UnpackedMxfp4>(std::move(sources), groups, part);
  made.source = TRY(slice(source, 0, source->size()));
  return made;
}

Result<Tensor> mxfp4_of(const TensorView& blocks, const TensorView& scales, uint64_t first, uint64_t step) {
  const ShapeView shape = blocks.shape;
  const bool is_bytes = blocks.dtype == dtype_named("uint8") && scales.dtype == dtype_named("uint8");
  if (!is_bytes || shape.size() != 4 || shape[3] != kGroupBytes || !std::ranges::equal(scales.shape, shape.first(3)) ||
      shape[1] % step != 0 || blocks.source.refused() || scales.source.refused() || blocks.nbytes() == 0)
    return failure(
        Code::unsupported,
        fmt::format("tensor {} has no MXFP4 blocks [experts, rows, groups, 16] with scales", quoted(blocks.name)));
  Tensor made;
  made.name = blocks.name;
  made.dtype = dtype_named("mxfp4");
  made.stored_dtype = "MXFP4";
  made.shape = {shape[0], shape[1] / step, shape[2] * kGroupElements};
  const auto source =
      std::make_shared<Mxfp4Blocks>(blocks.source, scales.source, shape[0] * shape[1] / step, shape[2], first, step);
  made.source = TRY(slice(source, 0, source->size()));
  return made;
}

}  // namespace weightfs::mapping
