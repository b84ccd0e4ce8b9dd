// MXFP4 as gpt-oss stores it: byte i of a group has the elements 2i (lower half) and 2i + 1. A block of ggml has the
// scale, then bytes whose lower halves are the elements 0 to 15, and whose upper ones 16 to 31.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
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

// The bytes of rows [from, to) if a row has so many.
ByteRange bytes_of(ByteRange rows, uint64_t row_bytes) { return {rows.from * row_bytes, rows.to * row_bytes}; }

// The rows that have bytes of a range.
ByteRange rows_of_bytes(ByteRange range, uint64_t row_bytes, uint64_t rows) {
  const uint64_t to = std::min(rows, range.to / row_bytes + (range.to % row_bytes == 0 ? 0 : 1));
  return {std::min(range.from / row_bytes, to), to};
}

// Fills `out` part by part. `read` reads some bytes at an offset, and returns their number.
template <class Read>
Result<size_t> read_parts(std::span<std::byte> out, uint64_t offset, const Read& read) {
  for (size_t done = 0; done < out.size();) done += TRY(read(offset + done, out.subspan(done)));
  return out.size();
}

// Rows of blocks, of which every `step`-th one is taken.
class Mxfp4Blocks final : public Source {
 public:
  Mxfp4Blocks(const Slice& blocks, const Slice& scales, uint64_t rows, uint64_t groups, uint64_t first, uint64_t step)
      : blocks_(blocks), scales_(scales), rows_(rows), groups_(groups), first_(first), step_(step) {}

  uint64_t size() const override { return rows_ * groups_ * kMxfp4Bytes; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_rows(offset, out, std::nullopt);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return read_rows(offset, out, stored_rows(expected));
  }
  Result<void> prefetch(ByteRange range) const override {
    const ByteRange rows = stored_rows(range);
    TRY_VOID(blocks_.prefetch(bytes_of(rows, groups_ * kGroupBytes)));
    return scales_.prefetch(bytes_of(rows, groups_));
  }
  Result<CachedBytes> cached(ByteRange range) const override {
    const ByteRange rows = stored_rows(range);
    CachedBytes sum = TRY(blocks_.cached(bytes_of(rows, groups_ * kGroupBytes)));
    sum += TRY(scales_.cached(bytes_of(rows, groups_)));
    return in_proportion(sum, (rows.to - rows.from) * groups_ * kMxfp4Bytes,
                         bytes_inside(size(), range.from, range.to - range.from));
  }
  VerifiedBy verification() const override { return worse(blocks_.verification(), scales_.verification()); }
  std::shared_ptr<const void> keep_cached() const override {
    return std::make_shared<const std::array<std::shared_ptr<const void>, 2>>(
        std::array{blocks_.keep_cached(), scales_.keep_cached()});
  }

 private:
  // The stored rows from the first to the last one that has bytes of a range. The ones between belong to the other
  // half.
  ByteRange stored_rows(ByteRange range) const {
    const ByteRange rows = rows_of_bytes(range, groups_ * kMxfp4Bytes, rows_);
    if (rows.from >= rows.to) return {0, 0};
    return {first_ + rows.from * step_, first_ + (rows.to - 1) * step_ + 1};
  }

  Result<size_t> read_rows(uint64_t offset, std::span<std::byte> out, const std::optional<ByteRange>& expected) const {
    const auto read = [&](uint64_t at, std::span<std::byte> left) { return read_in_row(at, left, expected); };
    return read_parts(out.first(bytes_inside(size(), offset, out.size())), offset, read);
  }

  // Reads bytes of one row; returns their number. `expected`: stored rows that will probably be read.
  Result<size_t> read_in_row(uint64_t offset, std::span<std::byte> out,
                             const std::optional<ByteRange>& expected) const {
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
    const auto read = [&](const Slice& source, uint64_t width, std::span<std::byte> bytes) {
      if (!expected) return read_exact(source, first * width, bytes);
      return read_exact(source, first * width, bytes, bytes_of(*expected, groups_ * width));
    };
    TRY_VOID(read(blocks_, kGroupBytes, stored));
    TRY_VOID(read(scales_, 1, scales));
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
    return read_rows(offset, out, std::nullopt);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return read_rows(offset, out, stored_bytes(expected));
  }
  Result<void> prefetch(ByteRange range) const override {
    for (const Slice& tensor : tensors_) TRY_VOID(tensor.prefetch(stored_bytes(range)));
    return {};
  }
  Result<CachedBytes> cached(ByteRange range) const override {
    const ByteRange stored = stored_bytes(range);
    CachedBytes sum;
    for (const Slice& tensor : tensors_) sum += TRY(tensor.cached(stored));
    return in_proportion(sum, (stored.to - stored.from) * tensors_.size(),
                         bytes_inside(size(), range.from, range.to - range.from));
  }
  VerifiedBy verification() const override {
    return worse(tensors_.front().verification(), tensors_.back().verification());
  }
  std::shared_ptr<const void> keep_cached() const override {
    return std::make_shared<const std::array<std::shared_ptr<const void>, 2>>(
        std::array{tensors_.front().keep_cached(), tensors_.back().keep_cached()});
  }

 private:
  // The bytes of each tensor that a range is made of.
  ByteRange stored_bytes(ByteRange range) const {
    const uint64_t rows = tensors_.front().size() / kMxfp4Bytes / groups_;
    return bytes_of(rows_of_bytes(range, groups_ * width_ * tensors_.size(), rows), groups_ * kMxfp4Bytes);
  }

  Result<size_t> read_rows(uint64_t offset, std::span<std::byte> out, const std::optional<ByteRange>& expected) const {
    const auto read = [&](uint64_t at, std::span<std::byte> left) { return read_in_row(at, left, expected); };
    return read_parts(out.first(bytes_inside(size(), offset, out.size())), offset, read);
  }

  // `expected`: bytes of the tensor that will probably be read.
  Result<size_t> read_in_row(uint64_t offset, std::span<std::byte> out,
                             const std::optional<ByteRange>& expected) const {
    const uint64_t row = offset / (groups_ * width_);
    const uint64_t at = offset % (groups_ * width_);
    const uint64_t from = at / width_;
    const uint64_t skipped = at % width_;
    const uint64_t count = std::min({groups_ - from, (skipped + out.size() + width_ - 1) / width_, kMostGroups});
    std::vector<std::byte> blocks(count * kMxfp4Bytes);
    std::vector<std::byte> made(count * width_);
    const uint64_t first = row / tensors_.size() * groups_ + from;
    const Slice& tensor = tensors_[row % tensors_.size()];
    TRY_VOID(expected ? read_exact(tensor, first * kMxfp4Bytes, blocks, *expected)
                      : read_exact(tensor, first * kMxfp4Bytes, blocks));
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
