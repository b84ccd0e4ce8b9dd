#include "formats/float32.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "formats/float32/quants.h"

namespace weightfs {
namespace {

unsigned byte_at(const std::byte* block, size_t at) { return std::to_integer<unsigned>(block[at]); }

float half_at(const std::byte* block, size_t at) {
  return float32::half_value(static_cast<uint16_t>(byte_at(block, at) | byte_at(block, at + 1) << 8));
}

template <size_t at>
void one_scale(const std::byte* block, float* scales, float*) {
  scales[0] = half_at(block, at);
}

void scale_and_minimum(const std::byte* block, float* scales, float* minimums) {
  scales[0] = half_at(block, 0);
  minimums[0] = half_at(block, 2);
}

void q2_k(const std::byte* block, float* scales, float* minimums) {
  const float scale = half_at(block, 80), minimum = half_at(block, 82);
  for (size_t i = 0; i < 16; ++i) {
    scales[i] = scale * static_cast<float>(byte_at(block, i) & 15);
    minimums[i] = minimum * static_cast<float>(byte_at(block, i) >> 4);
  }
}

void q3_k(const std::byte* block, float* scales, float*) {
  const float scale = half_at(block, 108);
  const std::byte* const packed = block + 96;
  for (size_t i = 0; i < 16; ++i) {
    const unsigned low = i < 8 ? byte_at(packed, i) & 15 : byte_at(packed, i - 8) >> 4;
    const unsigned high = byte_at(packed, 8 + i % 4) >> i / 4 * 2 & 3;
    scales[i] = scale * static_cast<float>(static_cast<int>(low | high << 4) - 32);
  }
}

// q4_k and q5_k: eight scales and minimums of 6 bits.
void q4_k(const std::byte* block, float* scales, float* minimums) {
  const float scale = half_at(block, 0), minimum = half_at(block, 2);
  const std::byte* const packed = block + 4;
  for (size_t i = 0; i < 4; ++i) {
    const unsigned first = byte_at(packed, i), second = byte_at(packed, i + 4), last = byte_at(packed, i + 8);
    scales[i] = scale * static_cast<float>(first & 63);
    minimums[i] = minimum * static_cast<float>(second & 63);
    scales[i + 4] = scale * static_cast<float>((last & 15) | first >> 6 << 4);
    minimums[i + 4] = minimum * static_cast<float>(last >> 4 | second >> 6 << 4);
  }
}

void q6_k(const std::byte* block, float* scales, float*) {
  const float scale = half_at(block, 208);
  for (size_t i = 0; i < 16; ++i) scales[i] = scale * static_cast<float>(static_cast<int8_t>(byte_at(block, 192 + i)));
}

void q8_k(const std::byte* block, float* scales, float*) { std::memcpy(scales, block, sizeof(float)); }

void iq4_xs(const std::byte* block, float* scales, float*) {
  const float scale = half_at(block, 0);
  const unsigned high = byte_at(block, 2) | byte_at(block, 3) << 8;
  for (size_t i = 0; i < 8; ++i) {
    const unsigned low = byte_at(block, 4 + i / 2) >> i % 2 * 4 & 15;
    scales[i] = scale * static_cast<float>(static_cast<int>(low | (high >> 2 * i & 3) << 4) - 32);
  }
}

// Powers of two: float8_e8m0fnu.
void mxfp4(const std::byte* block, float* scales, float*) {
  scales[0] = std::ldexp(1.0F, static_cast<int>(byte_at(block, 0)) - 127);
}

// float8_e4m3fn without a sign; 0x7F is 0 in ggml.
void nvfp4(const std::byte* block, float* scales, float*) {
  for (size_t i = 0; i < 4; ++i) {
    const unsigned bits = byte_at(block, i) & 0x7F;
    const int exponent = static_cast<int>(bits >> 3);
    const auto mantissa = static_cast<float>(bits & 7);
    const float value = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    scales[i] = byte_at(block, i) == 0x7F ? 0 : value;
  }
}

struct Row {
  std::string_view dtype;
  BlockScales scales;
};

constexpr std::array kRows = {
    Row{"iq4_nl", {18, 1, 0, one_scale<0>}},
    Row{"iq4_xs", {136, 8, 0, iq4_xs}},
    Row{"mxfp4", {17, 1, 0, mxfp4}},
    Row{"nvfp4", {36, 4, 0, nvfp4}},
    Row{"q1_0", {18, 1, 0, one_scale<0>}},
    Row{"q2_0", {18, 1, 0, one_scale<0>}},
    Row{"q2_k", {84, 16, 16, q2_k}},
    Row{"q3_k", {110, 16, 0, q3_k}},
    Row{"q4_0", {18, 1, 0, one_scale<0>}},
    Row{"q4_1", {20, 1, 1, scale_and_minimum}},
    Row{"q4_k", {144, 8, 8, q4_k}},
    Row{"q5_0", {22, 1, 0, one_scale<0>}},
    Row{"q5_1", {24, 1, 1, scale_and_minimum}},
    Row{"q5_k", {176, 8, 8, q4_k}},
    Row{"q6_k", {210, 16, 0, q6_k}},
    Row{"q8_0", {34, 1, 0, one_scale<0>}},
    Row{"q8_k", {292, 1, 0, q8_k}},
    Row{"tq1_0", {54, 1, 0, one_scale<52>}},
    Row{"tq2_0", {66, 1, 0, one_scale<64>}},
};

}  // namespace

const BlockScales* block_scales_of(const DType& dtype) {
  if (dtype.order == ByteOrder::big) return nullptr;
  const auto row = std::ranges::find(kRows, dtype.name, &Row::dtype);
  return row == kRows.end() ? nullptr : &row->scales;
}

}  // namespace weightfs
