#include "fs/views/unpacked.h"

#include <algorithm>
#include <array>
#include <utility>

namespace weightfs::views {
namespace {

// Elements per round: a multiple of 8, so that each round begins at a byte. A round is at most 6/8 as large packed.
constexpr uint64_t kRound = 8192;

class Unpacked final : public Source {
 public:
  Unpacked(SourcePtr packed, uint32_t bits, bool is_signed, uint64_t elements)
      : packed_(std::move(packed)), bits_(bits), signed_(is_signed), elements_(elements) {}

  uint64_t size() const override { return elements_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= elements_) return size_t{0};
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(out.size(), elements_ - offset));
    for (size_t done = 0; done < wanted;) {
      const uint64_t first = offset + done;
      const size_t count = std::min<size_t>(wanted - done, kRound - first % 8);
      TRY_VOID(unpack(first, out.subspan(done, count)));
      done += count;
    }
    return wanted;
  }

  std::shared_ptr<const void> keep_cached() const override { return packed_->keep_cached(); }
  VerifiedBy verification() const override { return packed_->verification(); }

 private:
  Result<void> unpack(uint64_t first, std::span<std::byte> out) const {
    const uint64_t begin = first / 8 * bits_;  // eight elements fill whole bytes
    const uint64_t end = ((first + out.size()) * bits_ + 7) / 8;
    std::array<std::byte, kRound> bytes;
    TRY_VOID(read_exact(*packed_, begin, std::span(bytes).first(static_cast<size_t>(end - begin))));
    for (size_t i = 0; i < out.size(); ++i) out[i] = element(bytes, (first % 8 + i) * bits_);
    return {};
  }

  // The element at this bit; it may lie in two bytes.
  std::byte element(const std::array<std::byte, kRound>& bytes, size_t bit) const {
    const size_t at = bit / 8;
    const unsigned second = bit % 8 + bits_ > 8 ? std::to_integer<unsigned>(bytes[at + 1]) : 0;
    const unsigned both = std::to_integer<unsigned>(bytes[at]) | second << 8;
    const unsigned value = both >> bit % 8 & ((1U << bits_) - 1);
    const unsigned sign = signed_ ? value & 1U << (bits_ - 1) : 0;
    return static_cast<std::byte>(value - 2 * sign);
  }

  SourcePtr packed_;
  uint32_t bits_;
  bool signed_;
  uint64_t elements_;
};

}  // namespace

SourcePtr unpacked(SourcePtr packed, const DType& dtype, uint64_t elements) {
  return std::make_shared<Unpacked>(std::move(packed), dtype.packed_bits, dtype.npy_descr == "|i1", elements);
}

}  // namespace weightfs::views
