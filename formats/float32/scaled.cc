// The quantised types whose quants are integers or an entry of a short table.
#include "formats/float32/quants.h"

namespace weightfs::float32 {
namespace {

template <size_t elements>
void scale_and_add(float scale, float minimum, const int8_t* quants, float* out) {
  for (size_t i = 0; i < elements; ++i) out[i] = scale * static_cast<float>(quants[i]) + minimum;
}

template <size_t elements>
void scale_and_subtract(float scale, float minimum, const int8_t* quants, float* out) {
  for (size_t i = 0; i < elements; ++i) out[i] = scale * static_cast<float>(quants[i]) - minimum;
}

struct Q1_0 {
  Half scale;
  uint8_t quants[16];
};

void q1_0(const Q1_0& block, float* out) {
  const float scale = value_of(block.scale);
  Quants<128> set;
  for (size_t i = 0; i < 16; ++i) store_quants(kByteMasks[block.quants[i]], &set[8 * i]);
  for (size_t i = 0; i < 128; ++i) out[i] = set[i] != 0 ? scale : -scale;
}

struct Q2_0 {
  Half scale;
  uint8_t quants[16];
};

void q2_0(const Q2_0& block, float* out) {
  Quants<64> quants;
  for (size_t i = 0; i < 64; ++i) quants[i] = quant((block.quants[i / 4] >> i % 4 * 2 & 3) - 1);
  scale_quants<64>(value_of(block.scale), quants.data(), out);
}

// The low halves of the bytes are the first elements, the high halves the others.
template <size_t bytes>
void unpack_halves(const uint8_t* packed, int8_t* quants) {
  for (size_t i = 0; i < bytes; ++i) quants[i] = quant(packed[i] & 15);
  for (size_t i = 0; i < bytes; ++i) quants[bytes + i] = quant(packed[i] >> 4);
}

struct Q4_0 {
  Half scale;
  uint8_t quants[16];
};

void q4_0(const Q4_0& block, float* out) {
  Quants<32> quants;
  unpack_halves<16>(block.quants, quants.data());
  for (int8_t& q : quants) q = quant(q - 8);
  scale_quants<32>(value_of(block.scale), quants.data(), out);
}

struct Q4_1 {
  Half scale;
  Half minimum;
  uint8_t quants[16];
};

void q4_1(const Q4_1& block, float* out) {
  Quants<32> quants;
  unpack_halves<16>(block.quants, quants.data());
  scale_and_add<32>(value_of(block.scale), value_of(block.minimum), quants.data(), out);
}

// Adds bit i of `fifth`, a little-endian number, to quant i.
void add_fifth_bits(const uint8_t* fifth, Quants<32>& quants) {
  for (size_t i = 0; i < 4; ++i) {
    const uint64_t bits = kByteMasks[fifth[i]] & 16 * kEachByte;
    store_quants(eight_at(&quants[8 * i]) | bits, &quants[8 * i]);
  }
}

struct Q5_0 {
  Half scale;
  uint8_t fifth[4];
  uint8_t quants[16];
};

void q5_0(const Q5_0& block, float* out) {
  Quants<32> quants;
  unpack_halves<16>(block.quants, quants.data());
  add_fifth_bits(block.fifth, quants);
  for (int8_t& q : quants) q = quant(q - 16);
  scale_quants<32>(value_of(block.scale), quants.data(), out);
}

struct Q5_1 {
  Half scale;
  Half minimum;
  uint8_t fifth[4];
  uint8_t quants[16];
};

void q5_1(const Q5_1& block, float* out) {
  Quants<32> quants;
  unpack_halves<16>(block.quants, quants.data());
  add_fifth_bits(block.fifth, quants);
  scale_and_add<32>(value_of(block.scale), value_of(block.minimum), quants.data(), out);
}

struct Q8_0 {
  Half scale;
  int8_t quants[32];
};

void q8_0(const Q8_0& block, float* out) {
  Quants<32> quants;
  std::memcpy(quants.data(), block.quants, 32);
  scale_quants<32>(value_of(block.scale), quants.data(), out);
}

// Elements l, 32 + l, 64 + l and 96 + l of each 128 are in bits 0-1, 2-3, 4-5 and 6-7 of byte l.
void unpack_quarters(const uint8_t* packed, int8_t* quants) {
  for (size_t half = 0; half < 2; ++half)
    for (unsigned quarter = 0; quarter < 4; ++quarter)
      for (size_t i = 0; i < 32; i += 8)
        store_quants(eight_at(packed + 32 * half + i) >> 2 * quarter & 3 * kEachByte,
                     quants + 128 * half + 32 * quarter + i);
}

struct Q2K {
  uint8_t scales[16];  // low half: of the quants; high half: of the minimum
  uint8_t quants[64];
  Half scale;
  Half minimum;
};

void q2_k(const Q2K& block, float* out) {
  Quants<256> quants;
  unpack_quarters(block.quants, quants.data());
  const float scale = value_of(block.scale);
  const float minimum = value_of(block.minimum);
  for (size_t i = 0; i < 16; ++i) {
    const auto low = static_cast<float>(block.scales[i] & 15);
    const auto high = static_cast<float>(block.scales[i] >> 4);
    scale_and_subtract<16>(scale * low, minimum * high, &quants[16 * i], out + 16 * i);
  }
}

// Sets a bit of each quant: bit n of byte i of `bits` belongs to element 32 * n + i.
template <unsigned place>
void add_bits(const uint8_t* bits, Quants<256>& quants) {
  for (unsigned bit = 0; bit < 8; ++bit)
    for (size_t i = 0; i < 32; i += 8) {
      int8_t* const its = &quants[32 * bit + i];
      store_quants(eight_at(its) | (eight_at(bits + i) >> bit & kEachByte) << place, its);
    }
}

struct Q3K {
  uint8_t high[32];
  uint8_t quants[64];
  uint8_t scales[12];
  Half scale;
};

void q3_k(const Q3K& block, float* out) {
  Quants<256> quants;
  unpack_quarters(block.quants, quants.data());
  add_bits<2>(block.high, quants);
  for (int8_t& q : quants) q = quant(q - 4);
  const float scale = value_of(block.scale);
  for (size_t i = 0; i < 16; ++i) {
    scale_quants<16>(scale * q3_k_scale(block.scales, i), &quants[16 * i], out + 16 * i);
  }
}

// Bytes [32 * n, 32 * n + 32) have elements [64 * n, 64 * n + 64), as in unpack_halves().
void unpack_k_halves(const uint8_t* packed, int8_t* quants) {
  for (size_t i = 0; i < 4; ++i) unpack_halves<32>(packed + 32 * i, quants + 64 * i);
}

void scale_eight_parts(Half scale, Half minimum, const uint8_t* scales, const int8_t* quants, float* out) {
  const SixBits parts = six_bits(scales);
  const float all_scale = value_of(scale);
  const float all_minimum = value_of(minimum);
  for (size_t i = 0; i < 8; ++i)
    scale_and_subtract<32>(all_scale * parts.scales[i], all_minimum * parts.minima[i], quants + 32 * i, out + 32 * i);
}

struct Q4K {
  Half scale;
  Half minimum;
  uint8_t scales[12];
  uint8_t quants[128];
};

void q4_k(const Q4K& block, float* out) {
  Quants<256> quants;
  unpack_k_halves(block.quants, quants.data());
  scale_eight_parts(block.scale, block.minimum, block.scales, quants.data(), out);
}

struct Q5K {
  Half scale;
  Half minimum;
  uint8_t scales[12];
  uint8_t fifth[32];
  uint8_t quants[128];
};

void q5_k(const Q5K& block, float* out) {
  Quants<256> quants;
  unpack_k_halves(block.quants, quants.data());
  add_bits<4>(block.fifth, quants);
  scale_eight_parts(block.scale, block.minimum, block.scales, quants.data(), out);
}

struct Q6K {
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  Half scale;
};

void q6_k(const Q6K& block, float* out) {
  Quants<256> quants;
  unpack_quarters(block.high, quants.data());
  for (size_t half = 0; half < 2; ++half) {
    int8_t* const its = &quants[128 * half];
    const uint8_t* const low = block.low + 64 * half;
    for (size_t i = 0; i < 64; i += 8) {
      const uint64_t halves = eight_at(low + i);
      store_quants((halves & 15 * kEachByte) | eight_at(its + i) << 4, its + i);
      store_quants((halves >> 4 & 15 * kEachByte) | eight_at(its + 64 + i) << 4, its + 64 + i);
    }
  }
  for (int8_t& q : quants) q = quant(q - 32);
  const float scale = value_of(block.scale);
  for (size_t i = 0; i < 16; ++i)
    scale_quants<16>(scale * static_cast<float>(block.scales[i]), &quants[16 * i], out + 16 * i);
}

struct Q8K {
  uint8_t scale[4];
  int8_t quants[256];
  uint8_t sums[32];  // of groups of quants, for dot products
};

void q8_k(const Q8K& block, float* out) {
  Quants<256> quants;
  std::memcpy(quants.data(), block.quants, 256);
  float scale = 0;
  std::memcpy(&scale, block.scale, sizeof(scale));
  scale_quants<256>(scale, quants.data(), out);
}

// Five digits of base 3 in a byte, the first digit in the highest place: the byte is the fraction digits / 243,
// rounded up, of 256. Digit n comes to the front when the byte is multiplied by 3^n, modulo 256.
template <unsigned digits, size_t bytes>
void unpack_ternary(const uint8_t* packed, int8_t* quants) {
  constexpr std::array<uint8_t, 5> kPowers = {1, 3, 9, 27, 81};
  for (unsigned digit = 0; digit < digits; ++digit)
    for (size_t i = 0; i < bytes; ++i) {
      const auto shifted = static_cast<uint8_t>(packed[i] * kPowers[digit]);
      quants[digit * bytes + i] = quant((shifted * 3 >> 8) - 1);
    }
}

struct TQ1_0 {
  uint8_t quants[48];
  uint8_t last[4];
  Half scale;
};

void tq1_0(const TQ1_0& block, float* out) {
  Quants<256> quants;
  unpack_ternary<5, 32>(block.quants, quants.data());
  unpack_ternary<5, 16>(block.quants + 32, &quants[160]);
  unpack_ternary<4, 4>(block.last, &quants[240]);
  scale_quants<256>(value_of(block.scale), quants.data(), out);
}

struct TQ2_0 {
  uint8_t quants[64];
  Half scale;
};

void tq2_0(const TQ2_0& block, float* out) {
  Quants<256> quants;
  unpack_quarters(block.quants, quants.data());
  for (int8_t& q : quants) q = quant(q - 1);
  scale_quants<256>(value_of(block.scale), quants.data(), out);
}

// Twice the values of float4_e2m1fn; the scales are halved for that.
constexpr std::array<int8_t, 16> kTwiceE2M1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

struct Mxfp4 {
  uint8_t exponent;
  uint8_t quants[16];
};

void mxfp4(const Mxfp4& block, float* out) {
  Quants<32> quants;
  look_up_halves<16>(kTwiceE2M1, block.quants, quants.data());
  scale_quants<32>(half_e8m0(block.exponent), quants.data(), out);
}

// The elements of a byte are neighbours.
void mxfp4_pairs(const Mxfp4& block, float* out) {
  Quants<32> quants;
  for (size_t i = 0; i < 16; ++i) {
    quants[2 * i] = kTwiceE2M1[block.quants[i] & 15];
    quants[2 * i + 1] = kTwiceE2M1[block.quants[i] >> 4];
  }
  scale_quants<32>(half_e8m0(block.exponent), quants.data(), out);
}

constexpr auto kHalfUe4m3 = [] {
  std::array<float, 256> values{};
  for (unsigned i = 0; i < 256; ++i) values[i] = half_ue4m3(i);
  return values;
}();

struct Nvfp4 {
  uint8_t scales[4];
  uint8_t quants[32];
};

void nvfp4(const Nvfp4& block, float* out) {
  for (size_t i = 0; i < 4; ++i) {
    Quants<16> quants;
    look_up_halves<8>(kTwiceE2M1, block.quants + 8 * i, quants.data());
    scale_quants<16>(kHalfUe4m3[block.scales[i]], quants.data(), out + 16 * i);
  }
}

constexpr std::array kScaled = {
    conversion_of_blocks<Mxfp4, 32, mxfp4>("mxfp4"),  conversion_of_blocks<Mxfp4, 32, mxfp4_pairs>("mxfp4_pairs"),
    conversion_of_blocks<Nvfp4, 64, nvfp4>("nvfp4"),  conversion_of_blocks<Q1_0, 128, q1_0>("q1_0"),
    conversion_of_blocks<Q2_0, 64, q2_0>("q2_0"),     conversion_of_blocks<Q2K, 256, q2_k>("q2_k"),
    conversion_of_blocks<Q3K, 256, q3_k>("q3_k"),     conversion_of_blocks<Q4_0, 32, q4_0>("q4_0"),
    conversion_of_blocks<Q4_1, 32, q4_1>("q4_1"),     conversion_of_blocks<Q4K, 256, q4_k>("q4_k"),
    conversion_of_blocks<Q5_0, 32, q5_0>("q5_0"),     conversion_of_blocks<Q5_1, 32, q5_1>("q5_1"),
    conversion_of_blocks<Q5K, 256, q5_k>("q5_k"),     conversion_of_blocks<Q6K, 256, q6_k>("q6_k"),
    conversion_of_blocks<Q8_0, 32, q8_0>("q8_0"),     conversion_of_blocks<Q8K, 256, q8_k>("q8_k"),
    conversion_of_blocks<TQ1_0, 256, tq1_0>("tq1_0"), conversion_of_blocks<TQ2_0, 256, tq2_0>("tq2_0"),
};

static_assert(is_sorted(kScaled));

}  // namespace

std::span<const Conversion> scaled_conversions() { return kScaled; }

}  // namespace weightfs::float32
