#include "fs/views/converted.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/numbers.h"

namespace weightfs::converted_test {
namespace {

using namespace views;
using test::tensor_of;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<uint16_t> halves(const Tensor& tensor, HalfType type, const AffineNumbers* affine = nullptr,
                             const OverflowsPtr& overflows = nullptr) {
  const SourcePtr source = half_values(tensor, affine, type, {overflows, 0});
  std::vector<uint16_t> out(element_count(tensor.shape));
  EXPECT_EQ(source->size(), out.size() * sizeof(uint16_t));
  EXPECT_TRUE(read_exact(*source, 0, std::as_writable_bytes(std::span(out))));
  return out;
}

template <class Number>
std::vector<uint16_t> halves(std::string_view dtype, const std::vector<Number>& numbers, HalfType type) {
  return halves(tensor_of("w", dtype_named(dtype), numbers), type);
}

double value_of(uint16_t bits, HalfType type) {
  return type == HalfType::float16 ? half_to_float(bits) : std::bit_cast<float>(uint32_t{bits} << 16U);
}

// semantics 26.9. Every half is itself again, and its neighbours meet in the middle, which goes to the even one.
TEST(HalfValues, EveryMiddleIsRoundedToTheEvenHalf) {
  for (const HalfType type : {HalfType::float16, HalfType::bfloat16}) {
    const uint16_t infinity = type == HalfType::float16 ? 0x7C00 : 0x7F80;
    for (uint16_t bits = 0; bits + 1 < infinity; ++bits) {
      const double low = value_of(bits, type), high = value_of(static_cast<uint16_t>(bits + 1), type);
      const double middle = (low + high) / 2;
      const std::vector<double> numbers = {low, std::nextafter(middle, low), middle, std::nextafter(middle, high)};
      const auto upper = static_cast<uint16_t>(bits + 1), even = bits % 2 == 0 ? bits : upper;
      if (bits % 37 != 0 && bits + 2 < infinity) {  // all of them by the function alone, which is faster
        ASSERT_EQ(to_half(static_cast<float>(low), type), bits);
        ASSERT_EQ(to_half(static_cast<float>(middle), type), even) << middle;
        continue;
      }
      ASSERT_EQ(halves("float64", numbers, type), (std::vector<uint16_t>{bits, bits, even, upper})) << middle;
      const std::vector<double> negative = {-low, -middle};
      ASSERT_EQ(halves("float64", negative, type),
                (std::vector<uint16_t>{static_cast<uint16_t>(bits | 0x8000U), static_cast<uint16_t>(even | 0x8000U)}));
    }
  }
}

// By way of float32, the last two numbers would be rounded twice: first to the middle, then to the even half.
TEST(HalfValues, WideNumbersAreRoundedOnce) {
  EXPECT_EQ(
      halves<double>("float64", {1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-40, 1 + 3 * 0x1p-11 - 0x1p-40}, HalfType::float16),
      (std::vector<uint16_t>{0x3C00, 0x3C01, 0x3C01}));
  EXPECT_EQ(halves<double>("float64", {1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-40, 1 + 3 * 0x1p-8 - 0x1p-40}, HalfType::bfloat16),
            (std::vector<uint16_t>{0x3F80, 0x3F81, 0x3F81}));
  const int64_t middle = (int64_t{1} << 62) + (int64_t{1} << 54);
  EXPECT_EQ(
      halves<int64_t>("int64", {middle, middle + 1, -middle, -middle - 1, INT64_MIN, INT64_MAX}, HalfType::bfloat16),
      (std::vector<uint16_t>{0x5E80, 0x5E81, 0xDE80, 0xDE81, 0xDF00, 0x5F00}));
  EXPECT_EQ(
      halves<uint64_t>("uint64", {(uint64_t{1} << 63) + (uint64_t{1} << 55) + 1, UINT64_MAX, 0}, HalfType::bfloat16),
      (std::vector<uint16_t>{0x5F01, 0x5F80, 0}));
  EXPECT_EQ(halves<int32_t>("int32", {0x0101'0000, 0x0101'0001, -0x0101'0001, 7}, HalfType::bfloat16),
            (std::vector<uint16_t>{0x4B80, 0x4B81, 0xCB81, 0x40E0}));
  EXPECT_EQ(halves<uint32_t>("uint32", {0x8080'0001, 65519, 65520}, HalfType::float16),
            (std::vector<uint16_t>{0x7C00, 0x7BFF, 0x7C00}));
  EXPECT_EQ(halves<double>("float64", {1e-300, -1e-300, 0x1p-25, 0x1.0000001p-25}, HalfType::float16),
            (std::vector<uint16_t>{0, 0x8000, 0, 1}));
  EXPECT_EQ(halves<double>("float64", {0x1p-134, 0x1.00000000001p-134}, HalfType::bfloat16),
            (std::vector<uint16_t>{0, 1}));
}

TEST(HalfValues, BigEndianNumbersAreRoundedOnce) {
  const double number = 1 + 0x1p-11 + 0x1p-40;
  Tensor tensor = tensor_of<uint64_t>("w", big_endian(dtype_named("float64")),
                                      {__builtin_bswap64(std::bit_cast<uint64_t>(number))});
  EXPECT_EQ(halves(tensor, HalfType::float16), std::vector<uint16_t>{0x3C01});
  tensor = tensor_of<uint16_t>("w", big_endian(dtype_named("bfloat16")), {0x803F});
  EXPECT_EQ(halves(tensor, HalfType::bfloat16), std::vector<uint16_t>{0x3F80});
}

TEST(HalfValues, InfinitiesAndNansAreKept) {
  const auto nan = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  const std::vector<uint32_t> bits = {0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFBFFFFF, 0x7FFFFFFF};
  EXPECT_EQ(halves("float32", bits, HalfType::float16),
            (std::vector<uint16_t>{0x7C00, 0xFC00, 0x7E00, 0x7E00, 0xFFFF, 0x7FFF}));
  EXPECT_EQ(halves("float32", bits, HalfType::bfloat16),
            (std::vector<uint16_t>{0x7F80, 0xFF80, 0x7FC0, 0x7FC0, 0xFFFF, 0x7FFF}));
  for (const double number : {std::nan(""), -std::nan("")}) {
    EXPECT_EQ(halves<double>("float64", {number}, HalfType::float16)[0] & 0x7E00U, 0x7E00U);
    EXPECT_EQ(halves<double>("float64", {number}, HalfType::bfloat16)[0] & 0x7FC0U, 0x7FC0U);
  }
  EXPECT_EQ(to_half(nan(0x7F800001), HalfType::float16), 0x7E00) << "quiet";
}

TEST(HalfValues, ElementsOfTheTypeAreAsStored) {
  const std::vector<uint16_t> patterns = {0x7C01, 0xFE12, 0x8000, 0x0001};
  EXPECT_EQ(halves("float16", patterns, HalfType::float16), patterns);
  EXPECT_EQ(halves("bfloat16", patterns, HalfType::bfloat16), patterns);
}

TEST(HalfValues, NumbersThatIntegersStandForAreRoundedOnce) {
  const AffineNumbers affine{0x1p-11, 1};
  EXPECT_EQ(halves(tensor_of<int8_t>("w", dtype_named("int8"), {0, 1, 3}), HalfType::float16, &affine),
            (std::vector<uint16_t>{0x3C00, 0x3C00, 0x3C02}));
  const AffineNumbers above{0x1p-11 + 0x1p-40, 1};
  EXPECT_EQ(halves(tensor_of<int8_t>("w", dtype_named("int8"), {1}), HalfType::float16, &above),
            std::vector<uint16_t>{0x3C01});
}

TEST(HalfValues, EveryRangeHasTheSameBytes) {
  std::mt19937 random(16);
  std::vector<float> numbers(40'000);
  for (float& number : numbers) number = std::bit_cast<float>(static_cast<uint32_t>(random()));
  const SourcePtr source = half_values(test::float32_tensor("w", numbers), nullptr, HalfType::float16, {});
  const std::string all = read_text(*source, 0, source->size()).value();
  for (const uint64_t offset : {0U, 1U, 2U, 32'767U, 32'768U, 79'999U, 80'000U})
    for (const size_t length : {1U, 2U, 3U, 32'768U, 70'001U})
      for (const bool ahead : {false, true}) {
        std::string part(length, '?');
        const auto bytes = std::as_writable_bytes(std::span(part));
        const auto got =
            ahead ? source->read_ahead(offset, bytes, {offset, offset + length}) : source->read(offset, bytes);
        part.resize(got.value());
        ASSERT_EQ(part, all.substr(offset, length)) << length << " bytes at " << offset;
      }
}

// The checksums of a zip read a tensor before it is written.
TEST(Overflows, NumbersThatAreReadAgainAreCountedOnce) {
  const auto overflows = std::make_shared<Overflows>();
  std::vector<float> numbers(30'000, 1);
  numbers[5] = 65520;
  numbers[20'000] = -1e9F;
  numbers[29'999] = 1e30F;
  numbers[7] = kInfinity;
  numbers[8] = 65519;
  numbers[9] = std::nanf("");
  const SourcePtr first = half_values(test::float32_tensor("a", numbers), nullptr, HalfType::float16, {overflows, 0});
  for (const size_t piece : {1001U, 4096U})
    for (uint64_t at = 0; at < first->size(); at += piece)
      ASSERT_TRUE(read_text(*first, at, std::min(piece, first->size() - at)));
  EXPECT_EQ(overflows->counts().numbers, 3U);
  EXPECT_EQ(overflows->counts().tensors, 1U);
  const auto none = std::make_shared<Overflows>();
  halves(test::float32_tensor("b", numbers), HalfType::bfloat16, nullptr, none);
  EXPECT_EQ(none->counts().numbers, 0U);
  const auto one = std::make_shared<Overflows>();
  halves(test::float32_tensor("b", {std::numeric_limits<float>::max()}), HalfType::bfloat16, nullptr, one);
  EXPECT_EQ(one->counts().numbers, 1U);
}

// semantics 26.9
TEST(Overflows, Float64ThatIsTooLargeForFloat32IsCountedInPieces) {
  constexpr double kHalfway = 0x1.ffffffp127;  // between the largest float32 and 2^128
  std::vector<double> numbers(30'000, 1);
  numbers[5] = kHalfway;
  numbers[6] = std::nextafter(kHalfway, 0);
  numbers[7] = kInfinity;
  numbers[8] = std::nan("");
  numbers[20'000] = -1e39;
  numbers[29'999] = 1e300;
  Model model;
  model.tensors.push_back(tensor_of("w", dtype_named("float64"), numbers));
  const auto overflows = std::make_shared<Overflows>();
  const SourcePtr values = converted(model, 0, kFloat32, overflows);
  for (const size_t piece : {1001U, 4096U, 1U << 20U})
    for (uint64_t at = 0; at < values->size(); at += piece)
      ASSERT_TRUE(read_text(*values, at, std::min<uint64_t>(piece, values->size() - at)));
  EXPECT_EQ(overflows->counts().numbers, 3U);
  EXPECT_EQ(overflows->counts().tensors, 1U);
}

}  // namespace
}  // namespace weightfs::converted_test
