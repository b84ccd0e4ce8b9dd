#include "formats/float32.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "formats/float32/conversion.h"

namespace weightfs {
namespace {

constexpr size_t kRound = 64 * 1024;  // the most bytes of a tensor that are read and converted at once

// Whole blocks are converted in memory; a range of them is copied.
class Float32Values final : public Source {
 public:
  Float32Values(const TensorView& tensor, const float32::Conversion& conversion)
      : dtype_(*tensor.dtype),
        conversion_(conversion),
        stored_(tensor.source),
        size_(element_count(tensor.shape) * sizeof(float)) {}

  uint64_t size() const override { return size_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_values(offset, out, std::nullopt);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return read_values(offset, out, stored_range(expected));
  }
  Result<void> prefetch(ByteRange range) const override { return stored_.prefetch(stored_range(range)); }
  Result<CachedBytes> cached(ByteRange range) const override {
    const ByteRange stored = stored_range(range);
    return in_proportion(TRY(stored_.cached(stored)), stored.to - stored.from,
                         bytes_inside(size_, range.from, range.to - range.from));
  }
  std::shared_ptr<const void> keep_cached() const override { return stored_.keep_cached(); }
  VerifiedBy verification() const override { return stored_.verification(); }

 private:
  uint64_t block_size() const { return conversion_.block * sizeof(float); }  // of a converted block

  // The stored bytes of the blocks of a range of values.
  ByteRange stored_range(ByteRange values) const {
    const uint64_t end = values.to / block_size() + (values.to % block_size() == 0 ? 0 : 1);
    return {std::min(values.from / block_size() * conversion_.block_bytes, stored_.size()),
            std::min(end * conversion_.block_bytes, stored_.size())};
  }

  Result<size_t> read_values(uint64_t offset, std::span<std::byte> out, std::optional<ByteRange> expected) const {
    if (offset >= size_) return size_t{0};
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset));
    const uint64_t round = kRound / conversion_.block_bytes * block_size();
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(
        static_cast<size_t>(std::min(round, wanted + 2 * block_size()) / block_size() * conversion_.block_bytes));
    for (size_t done = 0; done < wanted;) {
      const uint64_t at = offset + done;
      const uint64_t skipped = at % block_size();
      const auto count = static_cast<size_t>(std::min<uint64_t>(wanted - done, round - skipped));
      const uint64_t blocks = (skipped + count + block_size() - 1) / block_size();
      const auto bytes = std::span(buffer.get(), static_cast<size_t>(blocks * conversion_.block_bytes));
      TRY_VOID(read_blocks(at / block_size(), bytes, expected));
      convert(bytes, static_cast<size_t>(skipped), out.subspan(done, count));
      done += count;
    }
    return wanted;
  }

  // The last block of packed elements may be incomplete: the rest of it is 0.
  Result<void> read_blocks(uint64_t first, std::span<std::byte> bytes, std::optional<ByteRange> expected) const {
    const uint64_t begin = first * conversion_.block_bytes;
    const uint64_t missing = begin + bytes.size() - std::min(begin + bytes.size(), stored_.size());
    if (float32::is_packed(dtype_) && missing < conversion_.block_bytes) {
      const auto rest = bytes.last(static_cast<size_t>(missing));
      std::ranges::fill(rest, std::byte{});
      bytes = bytes.first(bytes.size() - rest.size());
    }
    const size_t got = expected ? TRY(stored_.read_ahead(begin, bytes, *expected)) : TRY(stored_.read(begin, bytes));
    if (got != bytes.size()) return read_exact(stored_, begin, bytes);
    if (dtype_.order == ByteOrder::big) float32::reverse_numbers(dtype_, bytes);
    return {};
  }

  // Converts the blocks and copies their values from `skipped` bytes on, as many as fit into `out`.
  void convert(std::span<const std::byte> blocks, size_t skipped, std::span<std::byte> out) const {
    std::array<float, 1024> values;
    const size_t most = values.size() / conversion_.block;
    while (!out.empty()) {
      const size_t count = std::min(most, blocks.size() / conversion_.block_bytes);
      conversion_.convert(blocks.data(), values.data(), count);
      blocks = blocks.subspan(count * conversion_.block_bytes);
      const size_t copied = std::min(out.size(), static_cast<size_t>(count * block_size()) - skipped);
      std::memcpy(out.data(), std::as_bytes(std::span(values)).data() + skipped, copied);
      out = out.subspan(copied);
      skipped = 0;
    }
  }

  const DType& dtype_;
  const float32::Conversion& conversion_;
  Slice stored_;
  uint64_t size_;
};

enum class Rounding { to_nearest, to_odd };

// Applies a scale and an offset to the values of integers.
class AffineValues final : public Source {
 public:
  AffineValues(SourcePtr stored, const AffineNumbers& numbers, Rounding rounding)
      : stored_(std::move(stored)), numbers_(numbers), rounding_(rounding) {}

  uint64_t size() const override { return stored_->size(); }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_values(offset, out, std::nullopt);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return read_values(offset, out, expected);
  }
  Result<void> prefetch(ByteRange range) const override { return stored_->prefetch(range); }
  std::shared_ptr<const void> keep_cached() const override { return stored_->keep_cached(); }
  VerifiedBy verification() const override { return stored_->verification(); }

 private:
  Result<size_t> read_values(uint64_t offset, std::span<std::byte> out, std::optional<ByteRange> expected) const {
    const size_t wanted = bytes_inside(size(), offset, out.size());
    std::vector<float> values(std::min(kRound, wanted + 2 * sizeof(float)) / sizeof(float));
    for (size_t done = 0; done < wanted;) {
      const uint64_t first = (offset + done) / sizeof(float);
      const auto skipped = static_cast<size_t>((offset + done) % sizeof(float));
      const size_t needed = (skipped + wanted - done + sizeof(float) - 1) / sizeof(float);
      const auto piece = std::span(values).first(std::min(needed, values.size()));
      const auto bytes = std::as_writable_bytes(piece);
      TRY_VOID(expected ? read_exact(*stored_, first * sizeof(float), bytes, *expected)
                        : read_exact(*stored_, first * sizeof(float), bytes));
      for (float& value : piece) value = number_of(value);
      const size_t copied = std::min(wanted - done, bytes.size() - skipped);
      std::memcpy(out.data() + done, bytes.data() + skipped, copied);
      done += copied;
    }
    return wanted;
  }

  float number_of(float stored) const {
    const double number = static_cast<double>(stored) * numbers_.scale + numbers_.offset;
    const double meant = numbers_.is_integer ? std::floor(number + 0.5) : number;
    return rounding_ == Rounding::to_odd ? float32::to_odd(meant) : static_cast<float>(meant);
  }

  SourcePtr stored_;
  AffineNumbers numbers_;
  Rounding rounding_;
};

}  // namespace

bool has_float32(const DType& dtype) { return float32::conversion_of(dtype) != nullptr; }

SourcePtr float32_values(const TensorView& tensor) {
  if (tensor.dtype->name == "float32" && tensor.dtype->order == ByteOrder::little)
    return std::make_shared<Slice>(tensor.source);
  return std::make_shared<Float32Values>(tensor, *float32::conversion_of(*tensor.dtype));
}

SourcePtr affine_values(const TensorView& tensor, const AffineNumbers& numbers) {
  return std::make_shared<AffineValues>(float32_values(tensor), numbers, Rounding::to_nearest);
}

SourcePtr values_to_round(const TensorView& tensor, const AffineNumbers* affine) {
  if (affine != nullptr) return std::make_shared<AffineValues>(float32_values(tensor), *affine, Rounding::to_odd);
  const float32::Conversion* const conversion = float32::conversion_to_odd(*tensor.dtype);
  if (conversion == float32::conversion_of(*tensor.dtype)) return float32_values(tensor);
  return std::make_shared<Float32Values>(tensor, *conversion);
}

float half_to_float(uint16_t half) { return float32::half_value(half); }

uint64_t element_count(ShapeView shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

}  // namespace weightfs
