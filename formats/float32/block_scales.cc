#include <algorithm>
#include <array>
#include <cstring>

#include "formats/float32.h"
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

const uint8_t* bytes_at(const std::byte* block, size_t at) { return reinterpret_cast<const uint8_t*>(block + at); }

void q3_k(const std::byte* block, float* scales, float*) {
  const float scale = half_at(block, 108);
  for (size_t i = 0; i < 16; ++i) scales[i] = scale * float32::q3_k_scale(bytes_at(block, 96), i);
}

// q4_k and q5_k.
void q4_k(const std::byte* block, float* scales, float* minimums) {
  const float scale = half_at(block, 0), minimum = half_at(block, 2);
  const float32::SixBits parts = float32::six_bits(bytes_at(block, 4));
  for (size_t i = 0; i < 8; ++i) {
    scales[i] = scale * parts.scales[i];
    minimums[i] = minimum * parts.minima[i];
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

void mxfp4(const std::byte* block, float* scales, float*) {
  scales[0] = 2 * float32::half_e8m0(static_cast<uint8_t>(byte_at(block, 0)));
}

void nvfp4(const std::byte* block, float* scales, float*) {
  for (size_t i = 0; i < 4; ++i) scales[i] = 2 * float32::half_ue4m3(byte_at(block, i));
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
