// The types whose elements are numbers of their own, also packed ones.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "formats/float32/conversion.h"

namespace weightfs::float32 {
namespace {

template <class Number>
void convert_numbers(const std::byte* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Number number{};
    std::memcpy(&number, in + i * sizeof(Number), sizeof(Number));
    out[i] = static_cast<float>(number);
  }
}

// An integer rounded to odd: its upper 24 bits, of which the last stands for all others, too.
template <class Integer>
float integer_to_odd(Integer number) {
  constexpr int kSignificant = std::numeric_limits<float>::digits;
  const bool negative = number < 0;
  const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  const int dropped = std::max(static_cast<int>(std::bit_width(magnitude)) - kSignificant, 0);
  const uint64_t upper = magnitude >> dropped;
  const uint64_t odd = upper << dropped == magnitude ? upper : upper | 1U;
  const float rounded = static_cast<float>(odd) * static_cast<float>(uint64_t{1} << dropped);
  return negative ? -rounded : rounded;
}

template <class Number>
void convert_to_odd(const std::byte* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Number number{};
    std::memcpy(&number, in + i * sizeof(Number), sizeof(Number));
    if constexpr (std::is_integral_v<Number>)
      out[i] = integer_to_odd(number);
    else
      out[i] = to_odd(number);
  }
}

void convert_halves(const std::byte* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, in + 2 * i, sizeof(half));
    out[i] = half_value(half);
  }
}

// bfloat16 is the upper half of a float32.
void convert_bfloat16(const std::byte* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t upper = 0;
    std::memcpy(&upper, in + 2 * i, sizeof(upper));
    out[i] = std::bit_cast<float>(uint32_t{upper} << 16);
  }
}

// Small types have a table of all values.
template <const auto& values>
void look_up(const std::byte* in, float* out, size_t count) {
  static_assert(values.size() == 256);
  for (size_t i = 0; i < count; ++i) out[i] = values[std::to_integer<size_t>(in[i])];
}

// Blocks of eight elements: the first is in the lowest bits, so eight of `bits` bits are that many bytes.
template <unsigned bits, const auto& values>
void look_up_packed(const std::byte* in, float* out, size_t blocks) {
  static_assert(values.size() == 1U << bits);
  for (size_t i = 0; i < blocks; ++i) {
    uint64_t eight = 0;
    std::memcpy(&eight, in + i * bits, bits);
    for (unsigned element = 0; element < 8; ++element) {
      out[8 * i + element] = values[eight % values.size()];
      eight /= values.size();
    }
  }
}

// What the largest exponent and the negative zero of a small float mean (ml_dtypes).
enum class Special {
  ieee,  // infinities and NaNs
  fn,    // finite numbers, but NaN where all bits are set
  fnuz,  // finite numbers; negative zero is NaN
  none,  // finite numbers
};

struct SmallFloat {
  unsigned exponent_bits;
  unsigned mantissa_bits;
  int bias;
  Special special;
};

// 2^exponent, within the normal numbers.
constexpr float power_of_two(int exponent) { return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23); }

constexpr float magnitude_of(const SmallFloat& type, unsigned bits) {
  const unsigned mantissa = bits & ((1U << type.mantissa_bits) - 1);
  const unsigned largest = (1U << type.exponent_bits) - 1;
  const unsigned exponent = bits >> type.mantissa_bits & largest;
  const bool all_set = bits == (1U << (type.exponent_bits + type.mantissa_bits)) - 1;
  if (type.special == Special::ieee && exponent == largest)
    return mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  if (type.special == Special::fn && all_set) return std::numeric_limits<float>::quiet_NaN();
  const unsigned leading = exponent == 0 ? 0 : 1U << type.mantissa_bits;
  const int scale = static_cast<int>(std::max(exponent, 1U)) - type.bias - static_cast<int>(type.mantissa_bits);
  return static_cast<float>(leading + mantissa) * power_of_two(scale);
}

template <size_t count>
constexpr std::array<float, count> values_of(const SmallFloat& type) {
  std::array<float, count> values{};
  for (unsigned i = 0; i < count; ++i) {
    const bool negative = i >= count / 2;
    const bool negative_zero = i == count / 2;
    const float magnitude = type.special == Special::fnuz && negative_zero ? std::numeric_limits<float>::quiet_NaN()
                                                                           : magnitude_of(type, i % (count / 2));
    values[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (negative ? 1U << 31 : 0U));
  }
  return values;
}

constexpr auto kE4M3 = values_of<256>({4, 3, 7, Special::ieee});
constexpr auto kE4M3B11Fnuz = values_of<256>({4, 3, 11, Special::fnuz});
constexpr auto kE4M3Fn = values_of<256>({4, 3, 7, Special::fn});
constexpr auto kE4M3Fnuz = values_of<256>({4, 3, 8, Special::fnuz});
constexpr auto kE5M2 = values_of<256>({5, 2, 15, Special::ieee});
constexpr auto kE5M2Fnuz = values_of<256>({5, 2, 16, Special::fnuz});
constexpr auto kE2M1Fn = values_of<16>({2, 1, 1, Special::none});
constexpr auto kE2M3Fn = values_of<64>({2, 3, 1, Special::none});
constexpr auto kE3M2Fn = values_of<64>({3, 2, 3, Special::none});

// Powers of two without a sign.
constexpr auto kE8M0 = [] {
  std::array<float, 256> values{};
  for (unsigned i = 1; i < 255; ++i) values[i] = std::bit_cast<float>(i << 23);
  values[0] = 0x1p-127F;
  values[255] = std::numeric_limits<float>::quiet_NaN();
  return values;
}();

constexpr auto kBool = [] {
  std::array<float, 256> values{};
  for (size_t i = 1; i < 256; ++i) values[i] = 1;
  return values;
}();

// Integers of the lowest `bits` bits.
template <size_t count>
constexpr std::array<float, count> integers(unsigned bits, bool has_sign) {
  std::array<float, count> values{};
  for (unsigned i = 0; i < count; ++i) {
    const int value = static_cast<int>(i & ((1U << bits) - 1));
    values[i] = static_cast<float>(has_sign && value >> (bits - 1) != 0 ? value - (1 << bits) : value);
  }
  return values;
}

constexpr auto kInt2 = integers<256>(2, true);
constexpr auto kUint2 = integers<256>(2, false);
constexpr auto kInt4 = integers<256>(4, true);
constexpr auto kUint4 = integers<256>(4, false);
constexpr auto kPackedUint1 = integers<2>(1, false);
constexpr auto kPackedInt2 = integers<4>(2, true);
constexpr auto kPackedUint2 = integers<4>(2, false);
constexpr auto kPackedUint3 = integers<8>(3, false);
constexpr auto kPackedInt4 = integers<16>(4, true);
constexpr auto kPackedUint4 = integers<16>(4, false);
constexpr auto kPackedUint6 = integers<64>(6, false);

constexpr std::array kNumbers = {
    Conversion{"bfloat16", 1, 2, convert_bfloat16},
    Conversion{"bool", 1, 1, look_up<kBool>},
    Conversion{"float16", 1, 2, convert_halves},
    Conversion{"float32", 1, 4, convert_numbers<float>},
    Conversion{"float64", 1, 8, convert_numbers<double>},
    Conversion{"float8_e4m3", 1, 1, look_up<kE4M3>},
    Conversion{"float8_e4m3b11fnuz", 1, 1, look_up<kE4M3B11Fnuz>},
    Conversion{"float8_e4m3fn", 1, 1, look_up<kE4M3Fn>},
    Conversion{"float8_e4m3fnuz", 1, 1, look_up<kE4M3Fnuz>},
    Conversion{"float8_e5m2", 1, 1, look_up<kE5M2>},
    Conversion{"float8_e5m2fnuz", 1, 1, look_up<kE5M2Fnuz>},
    Conversion{"float8_e8m0fnu", 1, 1, look_up<kE8M0>},
    Conversion{"int16", 1, 2, convert_numbers<int16_t>},
    Conversion{"int2", 1, 1, look_up<kInt2>},
    Conversion{"int32", 1, 4, convert_numbers<int32_t>},
    Conversion{"int4", 1, 1, look_up<kInt4>},
    Conversion{"int64", 1, 8, convert_numbers<int64_t>},
    Conversion{"int8", 1, 1, convert_numbers<int8_t>},
    Conversion{"uint16", 1, 2, convert_numbers<uint16_t>},
    Conversion{"uint2", 1, 1, look_up<kUint2>},
    Conversion{"uint32", 1, 4, convert_numbers<uint32_t>},
    Conversion{"uint4", 1, 1, look_up<kUint4>},
    Conversion{"uint64", 1, 8, convert_numbers<uint64_t>},
    Conversion{"uint8", 1, 1, convert_numbers<uint8_t>},
};

constexpr std::array kPackedNumbers = {
    Conversion{"float4_e2m1fn", 8, 4, look_up_packed<4, kE2M1Fn>},
    Conversion{"float6_e2m3fn", 8, 6, look_up_packed<6, kE2M3Fn>},
    Conversion{"float6_e3m2fn", 8, 6, look_up_packed<6, kE3M2Fn>},
    Conversion{"int2", 8, 2, look_up_packed<2, kPackedInt2>},
    Conversion{"int4", 8, 4, look_up_packed<4, kPackedInt4>},
    Conversion{"uint1", 8, 1, look_up_packed<1, kPackedUint1>},
    Conversion{"uint2", 8, 2, look_up_packed<2, kPackedUint2>},
    Conversion{"uint3", 8, 3, look_up_packed<3, kPackedUint3>},
    Conversion{"uint4", 8, 4, look_up_packed<4, kPackedUint4>},
    Conversion{"uint6", 8, 6, look_up_packed<6, kPackedUint6>},
};

constexpr std::array kToOdd = {
    Conversion{"float64", 1, 8, convert_to_odd<double>},  Conversion{"int32", 1, 4, convert_to_odd<int32_t>},
    Conversion{"int64", 1, 8, convert_to_odd<int64_t>},   Conversion{"uint32", 1, 4, convert_to_odd<uint32_t>},
    Conversion{"uint64", 1, 8, convert_to_odd<uint64_t>},
};

static_assert(is_sorted(kNumbers) && is_sorted(kPackedNumbers) && is_sorted(kToOdd));

}  // namespace

std::span<const Conversion> number_conversions() { return kNumbers; }

std::span<const Conversion> odd_conversions() { return kToOdd; }

std::span<const Conversion> packed_conversions() { return kPackedNumbers; }

}  // namespace weightfs::float32
