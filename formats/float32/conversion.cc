#include "formats/float32/conversion.h"

#include <array>

namespace weightfs::float32 {
namespace {

const Conversion* row_named(std::span<const Conversion> table, std::string_view name) {
  const auto row = std::ranges::lower_bound(table, name, {}, &Conversion::dtype);
  return row == table.end() || row->dtype != name ? nullptr : &*row;
}

struct Numbers {
  std::string_view dtype;
  std::array<size_t, 2> offsets;  // of float16 numbers in a block
  size_t count;
};

// The quantised types whose conversion between the byte orders is known (gguf_convert_endian.py of llama.cpp).
constexpr std::array kNumbersInBlocks = {
    Numbers{"q4_0", {0, 0}, 1},
    Numbers{"q4_k", {0, 2}, 2},
    Numbers{"q6_k", {208, 0}, 1},
    Numbers{"q8_0", {0, 0}, 1},
};

const Numbers* numbers_in_blocks(std::string_view dtype) {
  const auto row = std::ranges::find(kNumbersInBlocks, dtype, &Numbers::dtype);
  return row == kNumbersInBlocks.end() ? nullptr : row;
}

}  // namespace

const Conversion* conversion_of(const DType& dtype) {
  if (is_packed(dtype)) return row_named(packed_conversions(), dtype.name);
  if (dtype.block == 1) return row_named(number_conversions(), dtype.name);
  if (dtype.order == ByteOrder::pairs) return row_named(scaled_conversions(), "mxfp4_pairs");
  if (dtype.order == ByteOrder::big && numbers_in_blocks(dtype.name) == nullptr) return nullptr;
  const Conversion* const scaled = row_named(scaled_conversions(), dtype.name);
  return scaled != nullptr ? scaled : row_named(grid_conversions(), dtype.name);
}

const Conversion* conversion_to_odd(const DType& dtype) {
  const Conversion* const odd = dtype.block == 1 ? row_named(odd_conversions(), dtype.name) : nullptr;
  return odd != nullptr ? odd : conversion_of(dtype);
}

void reverse_numbers(const DType& dtype, std::span<std::byte> blocks) {
  const size_t size = dtype.block_bytes;
  if (dtype.block == 1) {
    for (size_t at = 0; at < blocks.size(); at += size) std::ranges::reverse(blocks.subspan(at, size));
    return;
  }
  const Numbers& numbers = *numbers_in_blocks(dtype.name);
  for (size_t at = 0; at < blocks.size(); at += size)
    for (size_t i = 0; i < numbers.count; ++i)
      std::swap(blocks[at + numbers.offsets[i]], blocks[at + numbers.offsets[i] + 1]);
}

}  // namespace weightfs::float32
