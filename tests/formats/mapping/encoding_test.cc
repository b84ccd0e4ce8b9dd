// The bytes of encoded numbers, with vector instructions and without, against plain loops.
#include "formats/mapping/operations/encoding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "formats/float32.h"

namespace weightfs::encoding_test {
namespace {

using namespace mapping;  // NOLINT

constexpr size_t kBlock = 32;

// Rounded by the definition: the nearest multiple of the distance of two float16 numbers, as double.
uint16_t nearest_float16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16U & 0x8000U);
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7E00U | (bits >> 13U & 0x3FFU));
  if (magnitude >= 65520) return static_cast<uint16_t>(sign | 0x7C00U);
  const int exponent = magnitude < std::ldexp(1, -14) ? -14 : std::ilogb(magnitude);
  const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<uint16_t>(sign | (static_cast<uint32_t>(exponent + 14) * 1024 + steps));
}

std::byte quant(float product) {
  return static_cast<std::byte>(std::isfinite(product) ? static_cast<int>(std::round(product)) : 0);
}

// quantize_row_q8_0_ref of ggml; a NaN is 0.
std::vector<std::byte> plain_q8(const std::vector<float>& numbers) {
  std::vector<std::byte> out;
  for (size_t block = 0; block < numbers.size(); block += kBlock) {
    float largest = 0;
    for (size_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(numbers[block + i]));
    const float scale = largest / 127.0F;
    const float inverse = scale == 0 ? 0 : 1.0F / scale;
    const uint16_t stored = nearest_float16(scale);
    out.push_back(static_cast<std::byte>(stored & 0xFFU));
    out.push_back(static_cast<std::byte>(stored >> 8U));
    for (size_t i = 0; i < kBlock; ++i) out.push_back(quant(numbers[block + i] * inverse));
  }
  return out;
}

std::vector<std::byte> encoded(GgufType type, const std::vector<float>& numbers, Instructions instructions) {
  const Encoding encoding = encoding_of(type, instructions);
  const size_t blocks = numbers.size() / encoding.numbers;
  std::vector<std::byte> out(blocks * encoding.bytes);
  encoding.encode(numbers.data(), out.data(), blocks);
  return out;
}

// All bfloat16 numbers; two neighbours that are `step` apart come from numbers with as different bits.
std::vector<float> all_bfloat16(uint32_t step) {
  std::vector<float> numbers;
  for (uint32_t i = 0; i < 65'536; ++i) numbers.push_back(std::bit_cast<float>((i * step & 0xFFFFU) << 16U));
  return numbers;
}

// All float16 numbers, the halfway points to their neighbours, and the float32 numbers next to those.
std::vector<float> ties_of_float16() {
  std::vector<float> numbers;
  for (uint32_t half = 0; half < 65'536; ++half) {
    const float value = half_to_float(static_cast<uint16_t>(half));
    const auto next = (half & 0x7FFFU) < 0x7BFFU ? half_to_float(static_cast<uint16_t>(half + 1)) : value;
    const float tie = value + (next - value) / 2;
    const auto bits = std::bit_cast<uint32_t>(tie);
    for (const uint32_t each : {bits - 1, bits, bits + 1}) numbers.push_back(std::bit_cast<float>(each));
    numbers.push_back(value);
  }
  return numbers;
}

// A block for each scale: the halves of its quants, and the numbers next to them.
std::vector<float> ties_of_q8() {
  std::vector<float> numbers;
  for (int exponent = -149; exponent < 120; ++exponent)
    for (int first = 0; first < 126; first += 9) {
      numbers.push_back(std::ldexp(-127.0F, exponent));
      for (int i = 0; i < 31; ++i) {
        const float tie = std::ldexp(static_cast<float>(first + i / 3) + 0.5F, exponent);
        const float near = i % 3 == 0 ? tie : std::nextafter(tie, i % 3 == 1 ? 0.0F : 1e38F);
        numbers.push_back(i % 2 == 0 ? near : -near);
      }
    }
  return numbers;
}

std::vector<float> with_specials(std::vector<float> numbers) {
  const float specials[] = {INFINITY, -INFINITY, NAN, std::bit_cast<float>(0xFF80'0001U), -0.0F, 1e-45F, 3.4e38F};
  for (size_t i = 0; i < numbers.size(); i += 37) numbers[i] = specials[i / 37 % std::size(specials)];
  return numbers;
}

class EncodedNumbers : public testing::TestWithParam<Instructions> {};

TEST_P(EncodedNumbers, Q8IsThatOfGgml) {
  for (const auto& numbers : {all_bfloat16(1), all_bfloat16(2049), all_bfloat16(40'503), ties_of_q8(),
                              ties_of_float16(), with_specials(ties_of_q8()), std::vector<float>(64)})
    EXPECT_EQ(encoded(GgufType::q8_0, numbers, GetParam()), plain_q8(numbers));
}

TEST_P(EncodedNumbers, HalvesAreTheNearest) {
  for (const auto& numbers : {all_bfloat16(1), all_bfloat16(2049), ties_of_float16(), std::vector<float>(19, 1.5F)}) {
    const std::vector<std::byte> halves = encoded(GgufType::float16, numbers, GetParam());
    for (size_t i = 0; i < numbers.size(); ++i) {
      uint16_t half = 0;
      std::memcpy(&half, &halves[i * sizeof half], sizeof half);
      ASSERT_EQ(half, nearest_float16(numbers[i])) << std::bit_cast<uint32_t>(numbers[i]);
    }
  }
}

TEST_P(EncodedNumbers, Bfloat16IsTheSameAgain) {
  const std::vector<float> numbers = all_bfloat16(1);
  const std::vector<std::byte> halves = encoded(GgufType::bfloat16, numbers, GetParam());
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint16_t half = 0;
    std::memcpy(&half, &halves[i * sizeof half], sizeof half);
    ASSERT_EQ(half, std::isnan(numbers[i]) ? i | 0x40U : i);
  }
}

INSTANTIATE_TEST_SUITE_P(Instructions, EncodedNumbers, testing::Values(Instructions::common, Instructions::fastest));

}  // namespace
}  // namespace weightfs::encoding_test
