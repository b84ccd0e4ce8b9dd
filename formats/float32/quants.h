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

/// The 6-bit scales and minima of the 8 parts of a q4_k or q5_k block.
struct SixBits {
  std::array<float, 8> scales;
  std::array<float, 8> minima;
};

inline SixBits six_bits(const uint8_t* packed) {
  SixBits parts;
  for (size_t i = 0; i < 4; ++i) {
    const int last = packed[i + 8];
    parts.scales[i] = static_cast<float>(packed[i] & 63);
    parts.minima[i] = static_cast<float>(packed[i + 4] & 63);
    parts.scales[i + 4] = static_cast<float>((last & 15) | packed[i] >> 6 << 4);
    parts.minima[i + 4] = static_cast<float>(last >> 4 | packed[i + 4] >> 6 << 4);
  }
  return parts;
}

/// The scale of part `i` of the 16 of a q3_k block: 6 bits, less 32.
inline float q3_k_scale(const uint8_t* packed, size_t i) {
  const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
  const int high = packed[8 + i % 4] >> i / 4 * 2 & 3;
  return static_cast<float>((low | high << 4) - 32);
}

/// 2^(exponent - 128), half of the value of float8_e8m0fnu.
inline float half_e8m0(uint8_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x200000U << exponent : (uint32_t{exponent} - 1U) << 23);
}

/// Half of the value of a scale without sign: 4 bits of exponent, 3 of mantissa. As in ggml 0x7F is 0, and the highest
/// bit is ignored in other values.
constexpr float half_ue4m3(unsigned scale) {
  if (scale == 0x7F) return 0;
  const unsigned exponent = scale >> 3 & 15;
  const auto mantissa = static_cast<float>(scale & 7);
  if (exponent == 0) return mantissa * 0x1p-10F;
  return (8 + mantissa) * 0x1p-11F * static_cast<float>(1U << exponent);
}

}  // namespace weightfs::float32
