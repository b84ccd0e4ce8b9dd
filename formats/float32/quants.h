// What the conversions of quantised blocks share: a block is unpacked into quants, a signed byte per element, which are
// then scaled. The compiler makes vector instructions of both loops. The order of the operations with float is that of
// ggml, so that the results have the same bits; the files that include this are compiled without fused multiply-add.
#pragma once

#include <array>
#include <cstring>

#include "formats/float32/conversion.h"

namespace weightfs::float32 {

/// The quants of elements. Not initialised: every element is written before it is read.
template <size_t elements>
using Quants = std::array<int8_t, elements>;

inline int8_t quant(int value) { return static_cast<int8_t>(value); }

/// A float16 as in a block.
struct Half {
  uint8_t low;
  uint8_t high;
};

inline float value_of(Half half) { return half_value(static_cast<uint16_t>(half.low | half.high << 8)); }

template <size_t elements>
void scale_quants(float scale, const int8_t* quants, float* out) {
  for (size_t i = 0; i < elements; ++i) out[i] = scale * static_cast<float>(quants[i]);
}

/// The values of the halves of bytes: the low halves are the first elements, the high halves the others.
template <size_t bytes>
void look_up_halves(const std::array<int8_t, 16>& values, const uint8_t* packed, int8_t* quants) {
  for (size_t i = 0; i < bytes; ++i) {
    quants[i] = values[packed[i] & 15];
    quants[bytes + i] = values[packed[i] >> 4];
  }
}

/// For each byte: byte n of the entry is 0xFF if bit n of the byte is set, otherwise 0.
inline constexpr std::array<uint64_t, 256> kByteMasks = [] {
  std::array<uint64_t, 256> masks{};
  for (size_t i = 0; i < 256; ++i)
    for (unsigned bit = 0; bit < 8; ++bit) masks[i] |= uint64_t{(i >> bit & 1) != 0 ? 0xFFU : 0U} << 8 * bit;
  return masks;
}();

inline constexpr uint64_t kEachByte = 0x0101010101010101;  ///< times a byte: eight of it

// Eight bytes at once: shifts of single bytes are slow, because x86-64 has none.
template <class Byte>
uint64_t eight_at(const Byte* bytes) {
  static_assert(sizeof(Byte) == 1);
  uint64_t eight = 0;
  std::memcpy(&eight, bytes, sizeof(eight));
  return eight;
}

inline void store_quants(uint64_t eight, int8_t* quants) { std::memcpy(quants, &eight, sizeof(eight)); }

/// Fits Convert: blocks of the struct `Block`, each by `convert_block`.
template <class Block, size_t elements, void (*convert_block)(const Block& block, float* out)>
void convert_blocks(const std::byte* in, float* out, size_t blocks) {
  static_assert(alignof(Block) == 1);
  for (size_t i = 0; i < blocks; ++i)
    convert_block(*reinterpret_cast<const Block*>(in + i * sizeof(Block)), out + i * elements);
}

template <class Block, size_t elements, void (*convert_block)(const Block& block, float* out)>
constexpr Conversion conversion_of_blocks(std::string_view dtype) {
  return {dtype, elements, sizeof(Block), convert_blocks<Block, elements, convert_block>};
}

}  // namespace weightfs::float32
