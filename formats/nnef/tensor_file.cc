#include "formats/nnef/tensor_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/files/leaf.h"
#include "base/values/little_endian.h"

namespace weightfs::nnef {
namespace {

constexpr std::string_view kMagic = "\x4E\xEF\x01";  // and version 1

// Offsets in the header.
constexpr size_t kDataSize = 4, kRank = 8, kDimensions = 12, kBits = 44, kItemType = 48;

struct ItemType {
  uint64_t code;
  uint64_t bits;
  std::string_view name;
  std::string_view dtype;
};

constexpr auto kTypes = std::to_array<ItemType>({
    {0, 16, "float", "float16"},
    {0, 32, "float", "float32"},
    {0, 64, "float", "float64"},
    {1, 8, "unsigned", "uint8"},
    {1, 16, "unsigned", "uint16"},
    {1, 32, "unsigned", "uint32"},
    {1, 64, "unsigned", "uint64"},
    {2, 8, "quantized unsigned", "uint8"},
    {2, 16, "quantized unsigned", "uint16"},
    {2, 32, "quantized unsigned", "uint32"},
    {3, 8, "quantized signed", "int8"},
    {3, 16, "quantized signed", "int16"},
    {3, 32, "quantized signed", "int32"},
    {4, 8, "signed", "int8"},
    {4, 16, "signed", "int16"},
    {4, 32, "signed", "int32"},
    {4, 64, "signed", "int64"},
    {5, 1, "bool", "bool"},
    {5, 8, "bool", "bool"},
});

// Booleans of one bit, the highest of each byte first, as bytes.
class BitBytes final : public Source {
 public:
  BitBytes(Slice bits, uint64_t count) : bits_(std::move(bits)), count_(count) {}

  uint64_t size() const override { return count_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t wanted = bytes_inside(count_, offset, out.size());
    std::array<std::byte, 4096> bits;
    for (size_t done = 0; done < wanted;) {
      const uint64_t at = offset + done;
      const uint64_t last = (offset + wanted - 1) / 8;
      const auto bytes = static_cast<size_t>(std::min<uint64_t>(bits.size(), last - at / 8 + 1));
      TRY_VOID(read_exact(bits_, at / 8, std::span(bits).first(bytes)));
      for (uint64_t bit = at % 8; bit < 8 * bytes && done < wanted; ++bit)
        out[done++] = bits[static_cast<size_t>(bit / 8)] >> (7 - bit % 8) & std::byte{1};
    }
    return wanted;
  }

  Result<void> prefetch(ByteRange range) const override { return bits_.prefetch({range.from / 8, (range.to + 7) / 8}); }
  Result<Place> place(uint64_t offset, Opens) const override {
    return Place{.length = bytes_after(offset), .is_ready = is_ready(bits_)};
  }

 private:
  Slice bits_;
  uint64_t count_;
};

}  // namespace

bool is_tensor_file(std::string_view head) { return head.starts_with(kMagic); }

Result<Tensor> read_tensor_file(std::string_view head, const SourcePtr& file) {
  if (!is_tensor_file(head)) return failure(Code::corrupt, "not a tensor file of version 1");
  if (head.size() < kHeaderSize)
    return failure(Code::corrupt, fmt::format("{} bytes, the header has {}", head.size(), kHeaderSize));
  const auto number = [&](size_t at, size_t width = 4) { return little_endian(head.substr(at, width)); };
  const uint64_t rank = number(kRank), bits = number(kBits), code = number(kItemType, 2), size = number(kDataSize);
  if (rank > kMaxRank) return failure(Code::corrupt, fmt::format("{} dimensions, at most {}", rank, kMaxRank));
  const auto type =
      std::ranges::find_if(kTypes, [&](const ItemType& each) { return each.code == code && each.bits == bits; });
  if (type == kTypes.end()) return failure(Code::unsupported, fmt::format("items of type {} with {} bits", code, bits));
  Tensor tensor;
  tensor.dtype = dtype_named(type->dtype);
  tensor.stored_dtype = type->name;
  for (size_t i = 0; i < rank; ++i) tensor.shape.push_back(number(kDimensions + 4 * i));
  const auto elements = elements_of(tensor.shape, type->bits);
  if (!elements || *elements / 8 + (*elements % 8 != 0 ? 1 : 0) != size)
    return failure(Code::corrupt, fmt::format("{} bytes, which is not the size of its shape", size));
  Slice stored = TRY(slice(file, kHeaderSize, size));
  tensor.source = type->bits == 1 ? TRY(slice(std::make_shared<BitBytes>(stored, *elements), 0, *elements)) : stored;
  return tensor;
}

}  // namespace weightfs::nnef
