#include "fs/views/converted.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace weightfs::views {
namespace {

constexpr size_t kRound = 16 * 1024;  // the most elements that are converted at once

uint32_t infinity_of(HalfType type) { return type == HalfType::float16 ? 0x7C00U : 0x7F80U; }

// The halves of the values of a tensor, which values_to_round() returns.
class HalfValues final : public Source {
 public:
  HalfValues(SourcePtr values, HalfType type, OverflowCount count)
      : values_(std::move(values)), type_(type), count_(std::move(count)) {}

  uint64_t size() const override { return values_->size() / 2; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_halves(offset, out, std::nullopt);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return read_halves(offset, out, range_of_values(expected));
  }
  Result<void> prefetch(ByteRange range) const override { return values_->prefetch(range_of_values(range)); }
  std::shared_ptr<const void> keep_cached() const override { return values_->keep_cached(); }
  VerifiedBy verification() const override { return values_->verification(); }

 private:
  ByteRange range_of_values(ByteRange halves) const {
    return {std::min(halves.from, size()) / 2 * sizeof(float),
            std::min(std::min(halves.to, size()) * 2 + 2, values_->size())};
  }

  Result<size_t> read_halves(uint64_t offset, std::span<std::byte> out, std::optional<ByteRange> expected) const {
    const size_t wanted = bytes_inside(size(), offset, out.size());
    std::vector<float> values(std::min(kRound, wanted / 2 + 2));
    std::vector<uint16_t> halves(values.size());
    for (size_t done = 0; done < wanted;) {
      const uint64_t first = (offset + done) / 2;
      const auto skipped = static_cast<size_t>((offset + done) % 2);
      const size_t count = std::min((skipped + wanted - done + 1) / 2, values.size());
      const auto bytes = std::as_writable_bytes(std::span(values).first(count));
      TRY_VOID(expected ? read_exact(*values_, first * sizeof(float), bytes, *expected)
                        : read_exact(*values_, first * sizeof(float), bytes));
      convert(std::span(values).first(count), halves);
      if (count_.overflows != nullptr)
        count_.overflows->add(count_.tensor, first, std::span(values).first(count),
                              [&](size_t i) { return (halves[i] & 0x7FFFU) == infinity_of(type_); });
      const size_t copied = std::min(wanted - done, 2 * count - skipped);
      std::memcpy(out.data() + done, std::as_bytes(std::span(halves)).data() + skipped, copied);
      done += copied;
    }
    return wanted;
  }

  void convert(std::span<const float> values, std::vector<uint16_t>& halves) const {
    if (type_ == HalfType::float16)
      std::ranges::transform(values, halves.begin(), to_float16);
    else
      std::ranges::transform(values, halves.begin(), to_bfloat16);
  }

  SourcePtr values_;
  HalfType type_;
  OverflowCount count_;
};

// Values of float32 that may have become infinite. A finite number that is too large is finite if it is rounded to odd
// (values_to_round), so that pieces with infinities are read a second time.
class CountedValues final : public Source {
 public:
  CountedValues(SourcePtr values, SourcePtr to_odd, OverflowCount count)
      : values_(std::move(values)), to_odd_(std::move(to_odd)), count_(std::move(count)) {}

  uint64_t size() const override { return values_->size(); }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t got = TRY(values_->read(offset, out));
    TRY_VOID(add_up(offset, out.first(got)));
    return got;
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    const size_t got = TRY(values_->read_ahead(offset, out, expected));
    TRY_VOID(add_up(offset, out.first(got)));
    return got;
  }
  Result<void> prefetch(ByteRange range) const override { return values_->prefetch(range); }
  std::shared_ptr<const void> keep_cached() const override { return values_->keep_cached(); }
  VerifiedBy verification() const override { return values_->verification(); }

 private:
  // Counts in the elements that were read, also in those of which only a part was.
  Result<void> add_up(uint64_t offset, std::span<const std::byte> bytes) const {
    const uint64_t end = (offset + bytes.size() + sizeof(float) - 1) / sizeof(float);
    const bool are_whole = offset % sizeof(float) == 0 && bytes.size() % sizeof(float) == 0;
    std::vector<float> values, exact;
    for (uint64_t first = offset / sizeof(float); first < end; first += values.size()) {
      values.resize(static_cast<size_t>(std::min<uint64_t>(kRound, end - first)));
      const auto piece = std::as_writable_bytes(std::span(values));
      if (are_whole)
        std::memcpy(piece.data(), bytes.data() + (first * sizeof(float) - offset), piece.size());
      else
        TRY_VOID(read_exact(*values_, first * sizeof(float), piece));
      const auto is_infinite = [&](size_t i) { return std::isinf(values[i]); };
      if (std::ranges::none_of(values, [](float value) { return std::isinf(value); })) continue;
      exact.resize(values.size());
      TRY_VOID(read_exact(*to_odd_, first * sizeof(float), std::as_writable_bytes(std::span(exact))));
      count_.overflows->add(count_.tensor, first, exact, is_infinite);
    }
    return {};
  }

  SourcePtr values_, to_odd_;
  OverflowCount count_;
};

// Elements per round: a multiple of 8, so that each round begins at a byte. A round is at most as large when stored.
constexpr uint64_t kUnpackedRound = 8192;

class Unpacked final : public Source {
 public:
  // An element has the lowest `bits` bits of each `stride` bits.
  Unpacked(SourcePtr stored, uint32_t stride, uint32_t bits, bool is_signed, uint64_t elements)
      : stored_(std::move(stored)), stride_(stride), bits_(bits), signed_(is_signed), elements_(elements) {}

  uint64_t size() const override { return elements_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= elements_) return size_t{0};
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(out.size(), elements_ - offset));
    for (size_t done = 0; done < wanted;) {
      const uint64_t first = offset + done;
      const size_t count = std::min<size_t>(wanted - done, kUnpackedRound - first % 8);
      TRY_VOID(unpack(first, out.subspan(done, count)));
      done += count;
    }
    return wanted;
  }

  std::shared_ptr<const void> keep_cached() const override { return stored_->keep_cached(); }
  VerifiedBy verification() const override { return stored_->verification(); }

 private:
  Result<void> unpack(uint64_t first, std::span<std::byte> out) const {
    const uint64_t begin = first / 8 * stride_;  // eight elements fill whole bytes
    const uint64_t end = ((first + out.size()) * stride_ + 7) / 8;
    std::array<std::byte, kUnpackedRound> bytes;
    TRY_VOID(read_exact(*stored_, begin, std::span(bytes).first(static_cast<size_t>(end - begin))));
    for (size_t i = 0; i < out.size(); ++i) out[i] = element(bytes, (first % 8 + i) * stride_);
    return {};
  }

  // The element at this bit; it may lie in two bytes.
  std::byte element(const std::array<std::byte, kUnpackedRound>& bytes, size_t bit) const {
    const size_t at = bit / 8;
    const unsigned second = bit % 8 + bits_ > 8 ? std::to_integer<unsigned>(bytes[at + 1]) : 0;
    const unsigned both = std::to_integer<unsigned>(bytes[at]) | second << 8;
    const unsigned value = both >> bit % 8 & ((1U << bits_) - 1);
    const unsigned sign = signed_ ? value & 1U << (bits_ - 1) : 0;
    return static_cast<std::byte>(value - 2 * sign);
  }

  SourcePtr stored_;
  uint32_t stride_;
  uint32_t bits_;
  bool signed_;
  uint64_t elements_;
};

}  // namespace

Overflows::Counts Overflows::counts() const {
  const std::scoped_lock lock(mutex_);
  Counts counts;
  for (const auto& [tensor, seen] : seen_) {
    counts.numbers += seen.overflows;
    if (seen.overflows > 0) ++counts.tensors;
  }
  return counts;
}

uint16_t to_half(float value, HalfType type) {
  return type == HalfType::float16 ? to_float16(value) : to_bfloat16(value);
}

SourcePtr half_values(const TensorView& tensor, const AffineNumbers* affine, HalfType type, OverflowCount count) {
  const std::string_view name = type == HalfType::float16 ? "float16" : "bfloat16";
  if (affine == nullptr && tensor.dtype == dtype_named(name)) return std::make_shared<Slice>(tensor.source);
  return std::make_shared<HalfValues>(values_to_round(tensor, affine), type, std::move(count));
}

const DType& kFloat32 = *dtype_named("float32");
const DType& kFloat16 = *dtype_named("float16");
const DType& kBfloat16 = *dtype_named("bfloat16");

bool has_numbers(const TensorView& tensor) {
  constexpr uint64_t kMaxElements = uint64_t{1} << 60;
  return !tensor.source.refused() && has_float32(*tensor.dtype) &&
         size_in_bytes(*tensor.dtype, tensor.shape) == tensor.nbytes() && element_count(tensor.shape) <= kMaxElements;
}

SourcePtr converted(const Model& model, size_t index, const DType& type, const OverflowsPtr& overflows) {
  const TensorView tensor = model.tensors[index];
  const auto found = model.per_tensor->affine_numbers.find(index);
  const AffineNumbers* const affine = found == model.per_tensor->affine_numbers.end() ? nullptr : &found->second;
  if (&type == &kFloat32) {
    const SourcePtr values = affine == nullptr ? float32_values(tensor) : affine_values(tensor, *affine);
    const bool may_overflow = affine != nullptr || tensor.dtype->name == "float64";
    if (overflows == nullptr || !may_overflow) return values;
    return std::make_shared<CountedValues>(values, values_to_round(tensor, affine), OverflowCount{overflows, index});
  }
  const HalfType half = &type == &kFloat16 ? HalfType::float16 : HalfType::bfloat16;
  return half_values(tensor, affine, half, OverflowCount{overflows, index});
}

SourcePtr unpacked(SourcePtr stored, const DType& dtype, uint64_t elements) {
  const uint32_t stride = dtype.packed_bits > 0 ? dtype.packed_bits : 8;
  const uint32_t bits = dtype.packed_bits > 0 ? dtype.packed_bits : dtype.low_bits;
  return std::make_shared<Unpacked>(std::move(stored), stride, bits, dtype.npy_descr == "|i1", elements);
}

}  // namespace weightfs::views
