#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "formats/float32.h"
#include "tests/builders/quantised_blocks.h"

namespace weightfs::float32_numbers_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<float> converted(const DType* dtype, uint64_t elements, std::string bytes) {
  EXPECT_TRUE(has_float32(*dtype)) << dtype->name;
  const SourcePtr source = float32_values(tensor_of(dtype, elements, std::move(bytes)));
  std::vector<float> values(elements);
  EXPECT_EQ(source->size(), elements * sizeof(float));
  EXPECT_TRUE(read_exact(*source, 0, std::as_writable_bytes(std::span(values))));
  return values;
}

template <class Number>
std::vector<float> converted(std::string_view dtype, const std::vector<Number>& numbers) {
  std::string bytes(numbers.size() * sizeof(Number), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return converted(dtype_named(dtype), numbers.size(), std::move(bytes));
}

// Every pattern of a type with this many bits, in order.
std::vector<float> all_patterns(std::string_view dtype, unsigned bits) {
  if (bits == 16) {
    std::vector<uint16_t> patterns(65536);
    for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
    return converted(dtype, patterns);
  }
  std::vector<uint8_t> patterns(256);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint8_t>(i);
  return converted(dtype, patterns);
}

// Equal, and of the same sign, or both NaN.
testing::AssertionResult is_same(float found, double expected) {
  if (std::isnan(found) && std::isnan(expected)) return testing::AssertionSuccess();
  if (static_cast<double>(found) == expected && std::signbit(found) == std::signbit(expected))
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << found << ", expected " << expected;
}

// A float by the textbook. `special` is the value of the largest exponent, by the mantissa; null if that is a number.
double textbook(unsigned bits, unsigned exponent_bits, unsigned mantissa_bits, int bias,
                double (*special)(unsigned mantissa)) {
  const unsigned mantissa = bits % (1U << mantissa_bits);
  const unsigned exponent = bits >> mantissa_bits & ((1U << exponent_bits) - 1);
  const double fraction = static_cast<double>(mantissa) / (1U << mantissa_bits);
  double value =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
  if (special != nullptr && exponent == (1U << exponent_bits) - 1) value = special(mantissa);
  return (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -value : value;
}

double ieee(unsigned mantissa) { return mantissa == 0 ? kInfinity : kNan; }

TEST(Numbers, Float16HasEveryPattern) {
  const auto values = all_patterns("float16", 16);
  for (unsigned i = 0; i < 65536; ++i) ASSERT_TRUE(is_same(values[i], textbook(i, 5, 10, 15, ieee))) << i;
}

TEST(Numbers, Bfloat16HasEveryPattern) {
  const auto values = all_patterns("bfloat16", 16);
  for (unsigned i = 0; i < 65536; ++i) {
    ASSERT_TRUE(is_same(values[i], textbook(i, 8, 7, 127, ieee))) << i;
    ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), i << 16) << "also of a NaN";
  }
}

// The definitions of ml_dtypes.
TEST(Numbers, Float8TypesHaveEveryPattern) {
  const auto nan_at_seven = [](unsigned mantissa) { return mantissa == 7 ? kNan : std::ldexp(8.0 + mantissa, 5); };
  for (unsigned i = 0; i < 256; ++i) {
    const auto value = [&](std::string_view dtype) { return all_patterns(dtype, 8)[i]; };
    ASSERT_TRUE(is_same(value("float8_e4m3"), textbook(i, 4, 3, 7, ieee))) << i;
    ASSERT_TRUE(is_same(value("float8_e4m3fn"), textbook(i, 4, 3, 7, nan_at_seven))) << i;
    ASSERT_TRUE(is_same(value("float8_e5m2"), textbook(i, 5, 2, 15, ieee))) << i;
    ASSERT_TRUE(is_same(value("float8_e4m3b11fnuz"), i == 128 ? kNan : textbook(i, 4, 3, 11, nullptr))) << i;
    ASSERT_TRUE(is_same(value("float8_e4m3fnuz"), i == 128 ? kNan : textbook(i, 4, 3, 8, nullptr))) << i;
    ASSERT_TRUE(is_same(value("float8_e5m2fnuz"), i == 128 ? kNan : textbook(i, 5, 2, 16, nullptr))) << i;
    ASSERT_TRUE(is_same(value("float8_e8m0fnu"), i == 255 ? kNan : std::ldexp(1, static_cast<int>(i) - 127))) << i;
  }
}

TEST(Numbers, SmallTypesHaveEveryPattern) {
  for (unsigned i = 0; i < 256; ++i) {
    const int four = static_cast<int>(i % 16);
    const int two = static_cast<int>(i % 4);
    const auto value = [&](std::string_view dtype) { return all_patterns(dtype, 8)[i]; };
    ASSERT_EQ(value("bool"), i == 0 ? 0 : 1) << i;
    ASSERT_EQ(value("uint8"), static_cast<float>(i)) << i;
    ASSERT_EQ(value("int8"), static_cast<float>(static_cast<int8_t>(i))) << i;
    ASSERT_EQ(value("int4"), static_cast<float>(four < 8 ? four : four - 16)) << i;
    ASSERT_EQ(value("uint4"), static_cast<float>(four)) << i;
    ASSERT_EQ(value("int2"), static_cast<float>(two < 2 ? two : two - 4)) << i;
    ASSERT_EQ(value("uint2"), static_cast<float>(two)) << i;
  }
}

TEST(Numbers, ShortIntegersHaveEveryPattern) {
  const auto plain = all_patterns("uint16", 16);
  const auto with_sign = all_patterns("int16", 16);
  for (unsigned i = 0; i < 65536; ++i) {
    ASSERT_EQ(plain[i], static_cast<float>(i));
    ASSERT_EQ(with_sign[i], static_cast<float>(static_cast<int16_t>(i)));
  }
}

TEST(Numbers, LargeIntegersAreRoundedToNearestEven) {
  EXPECT_EQ(converted<uint32_t>("uint32", {0, 16'777'217, 16'777'219, 4'294'967'295}),
            (std::vector<float>{0, 16'777'216, 16'777'220, 0x1p32F}));
  EXPECT_EQ(converted<int32_t>("int32", {-1, 16'777'217, -16'777'219, INT32_MIN}),
            (std::vector<float>{-1, 16'777'216, -16'777'220, -0x1p31F}));
  EXPECT_EQ(converted<int64_t>("int64", {-1, (int64_t{1} << 62) + 1, INT64_MIN, INT64_MAX}),
            (std::vector<float>{-1, 0x1p62F, -0x1p63F, 0x1p63F}));
  // Rounded once: halfway between two floats is even, and anything above it is not.
  constexpr uint64_t kHalfway = (uint64_t{1} << 63) + (uint64_t{1} << 39);
  EXPECT_EQ(converted<uint64_t>("uint64", {UINT64_MAX, kHalfway, kHalfway + 1, kHalfway - 1}),
            (std::vector<float>{0x1p64F, 0x1p63F, 0x1.000002p63F, 0x1p63F}));
}

TEST(Numbers, Float64IsRoundedAndOverflowsToInfinity) {
  const auto values = converted<double>(
      "float64", {0.1, -0.0, 1 + 0x1p-24, 1 + 0x1.8p-23, 3.5e38, -1e300, 0x1p-149, 0x1p-150, 1e-60, kInfinity, kNan});
  const std::vector<double> expected = {0.1F,     -0.0, 1, 1 + 0x1p-22, kInfinity, -kInfinity,
                                        0x1p-149, 0,    0, kInfinity,   kNan};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(is_same(values[i], expected[i])) << i;
}

// The first element is in the lowest bits; the last byte may be incomplete.
TEST(Numbers, PackedElementsAreUnpacked) {
  const auto packed = [](std::string_view dtype, uint64_t elements, std::string bytes) {
    return converted(packed_dtype_named(dtype), elements, std::move(bytes));
  };
  EXPECT_EQ(packed("int4", 3, "\xF8\x07"), (std::vector<float>{-8, -1, 7}));
  EXPECT_EQ(packed("uint4", 3, "\xF8\x07"), (std::vector<float>{8, 15, 7}));
  EXPECT_EQ(packed("int2", 4, "\xE4"), (std::vector<float>{0, 1, -2, -1}));
  EXPECT_EQ(packed("uint2", 4, "\xE4"), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(packed("uint1", 9, "\xA1\x01"), (std::vector<float>{1, 0, 0, 0, 0, 1, 0, 1, 1}));
  EXPECT_EQ(packed("uint3", 5, "\xD1\x58"), (std::vector<float>{1, 2, 3, 4, 5}));
  EXPECT_EQ(packed("uint6", 5, std::string("\x81\x30\xF8\x3F", 4)), (std::vector<float>{1, 2, 3, 62, 63}));
  EXPECT_EQ(packed("float4_e2m1fn", 3, "\x71\x0F"), (std::vector<float>{0.5, 6, -6}));
}

// The types of the Open Compute Project's microscaling formats: neither infinities nor NaNs.
TEST(Numbers, SubByteFloatsHaveEveryPattern) {
  const std::vector<double> e2m1 = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::string four;
  for (unsigned i = 0; i < 16; i += 2) four += static_cast<char>(i | (i + 1) << 4);
  const auto fours = converted(dtype_named("float4_e2m1fn"), 16, four);
  for (size_t i = 0; i < 16; ++i) EXPECT_TRUE(is_same(fours[i], i < 8 ? e2m1[i] : -e2m1[i - 8])) << i;
  std::string six;
  for (unsigned i = 0; i < 64; i += 4) {
    const unsigned quarter = i | (i + 1) << 6 | (i + 2) << 12 | (i + 3) << 18;
    six += {static_cast<char>(quarter), static_cast<char>(quarter >> 8), static_cast<char>(quarter >> 16)};
  }
  const auto e2m3 = converted(dtype_named("float6_e2m3fn"), 64, six);
  const auto e3m2 = converted(dtype_named("float6_e3m2fn"), 64, six);
  for (unsigned i = 0; i < 64; ++i) {
    EXPECT_TRUE(is_same(e2m3[i], textbook(i, 2, 3, 1, nullptr))) << i;
    EXPECT_TRUE(is_same(e3m2[i], textbook(i, 3, 2, 3, nullptr))) << i;
  }
}

TEST(Numbers, BigEndianNumbersAreReversed) {
  const auto big = [](std::string_view dtype, const std::string& bytes) {
    return converted(big_endian(dtype_named(dtype)), 1, bytes).front();
  };
  EXPECT_EQ(big("int16", "\xFF\xFE"), -2);
  EXPECT_EQ(big("int32", std::string("\0\0\1\2", 4)), 258);
  EXPECT_EQ(big("int64", std::string("\0\0\0\0\0\0\1\2", 8)), 258);
  EXPECT_EQ(big("float16", std::string("\xC0\0", 2)), -2);
  EXPECT_EQ(big("bfloat16", std::string("\xC0\0", 2)), -2);
  EXPECT_EQ(big("float32", std::string("\xC0\0\0\0", 4)), -2);
  EXPECT_EQ(big("float64", std::string("\xC0\0\0\0\0\0\0\0", 8)), -2);
}

TEST(Numbers, ComplexNumbersAndTextsAreNotConverted) {
  for (const char* name : {"complex64", "complex128", "string"}) EXPECT_FALSE(has_float32(*dtype_named(name))) << name;
  EXPECT_FALSE(has_float32(kUnknownDType));
}

}  // namespace
}  // namespace weightfs::float32_numbers_test
