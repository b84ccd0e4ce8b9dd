#include "formats/tensorflow/checkpoint/slices.h"

#include <fmt/core.h>

#include <bit>

#include "formats/tensorflow/fields.h"

namespace weightfs::tensorflow {
namespace {

void append_big_endian(std::string& out, uint64_t number, size_t bytes) {
  for (size_t i = bytes; i-- > 0;) out += static_cast<char>(number >> 8 * i & 0xFF);
}

// Its length in bytes, and the bytes.
void append_number(std::string& out, uint64_t number) {
  const auto bytes = static_cast<size_t>((std::bit_width(number) + 7) / 8);
  out += static_cast<char>(bytes);
  append_big_endian(out, number, bytes);
}

void append_text(std::string& out, std::string_view text) {
  for (const char c : text) {
    out += c;
    if (c == '\0') out += '\xFF';
    if (c == '\xFF') out += '\0';
  }
  out += std::string_view("\0\1", 2);
}

// As many leading one-bits as bytes, then a zero-bit and the number in two's complement. A negative number has all of
// these bits inverted.
void append_signed(std::string& out, int64_t number) {
  const uint64_t magnitude = static_cast<uint64_t>(number < 0 ? ~number : number);
  const auto bytes = static_cast<size_t>(std::bit_width(magnitude) / 7 + 1);
  std::string text;
  const char sign = number < 0 ? '\xFF' : '\0';
  text.append(2, sign);
  append_big_endian(text, static_cast<uint64_t>(number), sizeof(uint64_t));
  text.erase(0, text.size() - bytes);
  const uint32_t header = 0xFFFF0000U >> bytes & 0xFFFFU;  // of 16 bits
  text[0] = static_cast<char>(static_cast<uint8_t>(text[0]) ^ (header >> 8));
  if (bytes > 1) text[1] = static_cast<char>(static_cast<uint8_t>(text[1]) ^ (header & 0xFF));
  out += text;
}

}  // namespace

Result<TensorSlice> read_slice(Scanner& scanner, const Message& message) {
  TensorSlice out;
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != tensor_slice::kExtent) continue;
    if (out.extents.size() == kMaxDimensions)
      return failure(Code::unsupported, fmt::format("a slice of more than {} dimensions", kMaxDimensions));
    TensorSlice::Extent& extent = out.extents.emplace_back();
    const Message child = TRY(scanner.child(message, *field));
    Fields inner(scanner, child);
    while (const auto each = TRY(inner.next())) {
      if (each->tag == tensor_slice::kStart) extent.start = static_cast<int64_t>(each->value);
      if (each->tag == tensor_slice::kLength) extent.length = static_cast<int64_t>(each->value);
    }
  }
  return out;
}

std::string slice_key(std::string_view name, const TensorSlice& slice) {
  constexpr int64_t kWhole = -1;
  std::string key;
  append_number(key, 0);
  append_text(key, name);
  append_number(key, slice.extents.size());
  for (const TensorSlice::Extent& extent : slice.extents) {
    append_signed(key, extent.start);
    append_signed(key, extent.length.value_or(kWhole));
  }
  return key;
}

Result<Box> box_of(const TensorSlice& slice, const Shape& shape) {
  if (slice.extents.size() != shape.size())
    return failure(Code::corrupt,
                   fmt::format("a slice of {} dimensions, the tensor has {}", slice.extents.size(), shape.size()));
  Box box;
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto start = static_cast<uint64_t>(slice.extents[d].start);
    const auto length = static_cast<uint64_t>(slice.extents[d].length.value_or(static_cast<int64_t>(shape[d])));
    if (start > shape[d] || length > shape[d] - start)
      return failure(Code::corrupt, fmt::format("a slice of {} elements from {}, the dimension has {}",
                                                static_cast<int64_t>(length), static_cast<int64_t>(start), shape[d]));
    box.start.push_back(start);
    box.length.push_back(length);
  }
  return box;
}

}  // namespace weightfs::tensorflow
