// The IQ types of ggml: quants that are indexes of grids or of a table.
#include "formats/float32/iq_tables.h"
#include "formats/float32/quants.h"

namespace weightfs::float32 {
namespace {

uint16_t short_at(const uint8_t* bytes) { return static_cast<uint16_t>(bytes[0] | bytes[1] << 8); }

uint32_t number_at(const uint8_t* bytes) {
  uint32_t number = 0;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

// Eight elements with these absolute values, negative where a bit of `signs` is set. No value is 0, so that ~v + 1 does
// not carry into the next byte.
void store_signed(uint64_t values, unsigned signs, int8_t* quants) {
  const uint64_t mask = kByteMasks[signs];
  store_quants((values ^ mask) + (mask & kEachByte), quants);
}

// Seven signs; the eighth makes the number of negative elements even.
unsigned eight_signs(uint32_t seven) {
  seven &= 127;
  return seven | (static_cast<unsigned>(std::popcount(seven)) & 1U) << 7;
}

uint64_t joined(uint32_t first, uint32_t second) { return first | uint64_t{second} << 32; }

// The scale of a part of an IQ2 or IQ3_XXS block.
float part_scale(float scale, uint32_t part, float factor) {
  return scale * (0.5F + static_cast<float>(part)) * factor;
}

struct Iq2Xxs {
  Half scale;
  uint8_t parts[8][8];  // four indexes; four times 7 signs and a scale of 4 bits
};

void iq2_xxs(const Iq2Xxs& block, float* out) {
  const float scale = value_of(block.scale);
  for (size_t i = 0; i < 8; ++i) {
    const uint8_t* const part = block.parts[i];
    const uint32_t rest = number_at(part + 4);
    Quants<32> quants;
    for (size_t j = 0; j < 4; ++j) store_signed(kIq2xxsGrid[part[j]], eight_signs(rest >> 7 * j), &quants[8 * j]);
    scale_quants<32>(part_scale(scale, rest >> 28, 0.25F), quants.data(), out + 32 * i);
  }
}

struct Iq2Xs {
  Half scale;
  uint8_t quants[64];  // 9 bits of index, 7 signs
  uint8_t scales[8];
};

void iq2_xs(const Iq2Xs& block, float* out) {
  const float scale = value_of(block.scale);
  for (size_t i = 0; i < 16; ++i) {
    Quants<16> quants;
    for (size_t j = 0; j < 2; ++j) {
      const uint32_t both = short_at(block.quants + 4 * i + 2 * j);
      store_signed(kIq2xsGrid[both & 511], eight_signs(both >> 9), &quants[8 * j]);
    }
    const uint32_t part = block.scales[i / 2] >> i % 2 * 4 & 15;
    scale_quants<16>(part_scale(scale, part, 0.25F), quants.data(), out + 16 * i);
  }
}

struct Iq2S {
  Half scale;
  uint8_t low[32];
  uint8_t signs[32];
  uint8_t high[8];
  uint8_t scales[8];
};

void iq2_s(const Iq2S& block, float* out) {
  const float scale = value_of(block.scale);
  for (size_t i = 0; i < 16; ++i) {
    Quants<16> quants;
    for (size_t j = 0; j < 2; ++j) {
      const size_t at = 2 * i + j;
      const unsigned high = block.high[at / 4] >> at % 4 * 2 & 3U;
      store_signed(kIq2sGrid[block.low[at] | high << 8], block.signs[at], &quants[8 * j]);
    }
    const uint32_t part = block.scales[i / 2] >> i % 2 * 4 & 15;
    scale_quants<16>(part_scale(scale, part, 0.25F), quants.data(), out + 16 * i);
  }
}

struct Iq3Xxs {
  Half scale;
  uint8_t quants[64];
  uint8_t rest[8][4];  // four times 7 signs and a scale of 4 bits
};

void iq3_xxs(const Iq3Xxs& block, float* out) {
  const float scale = value_of(block.scale);
  for (size_t i = 0; i < 8; ++i) {
    const uint8_t* const indexes = block.quants + 8 * i;
    const uint32_t rest = number_at(block.rest[i]);
    Quants<32> quants;
    for (size_t j = 0; j < 4; ++j) {
      const uint64_t values = joined(kIq3xxsGrid[indexes[2 * j]], kIq3xxsGrid[indexes[2 * j + 1]]);
      store_signed(values, eight_signs(rest >> 7 * j), &quants[8 * j]);
    }
    scale_quants<32>(part_scale(scale, rest >> 28, 0.5F), quants.data(), out + 32 * i);
  }
}

struct Iq3S {
  Half scale;
  uint8_t low[64];
  uint8_t high[8];  // bit n of byte i belongs to index 8 * i + n
  uint8_t signs[32];
  uint8_t scales[4];
};

void iq3_s(const Iq3S& block, float* out) {
  const float scale = value_of(block.scale);
  for (size_t i = 0; i < 8; ++i) {
    Quants<32> quants;
    for (size_t j = 0; j < 4; ++j) {
      const auto entry = [&](size_t n) { return kIq3sGrid[block.low[8 * i + n] | (block.high[i] >> n & 1U) << 8]; };
      store_signed(joined(entry(2 * j), entry(2 * j + 1)), block.signs[4 * i + j], &quants[8 * j]);
    }
    const int part = block.scales[i / 2] >> i % 2 * 4 & 15;
    scale_quants<32>(scale * static_cast<float>(1 + 2 * part), quants.data(), out + 32 * i);
  }
}

// The elements of IQ1 are those of the grid plus or minus an eighth: quants are eighths.
void store_eighths(size_t index, bool minus, int8_t* quants) {
  // The bytes of the sum with -1 (0xFF) are computed without carries: an entry has only -8, 0 and 8.
  constexpr uint64_t kLowBits = 0x7F * kEachByte;
  const uint64_t grid = kIq1sGrid[index];
  const uint64_t delta = (minus ? 0xFF : 0x01) * kEachByte;
  store_quants(((grid & kLowBits) + (delta & kLowBits)) ^ ((grid ^ delta) & ~kLowBits), quants);
}

template <size_t elements>
void scale_eighths(float scale, const int8_t* quants, float* out) {
  for (size_t i = 0; i < elements; ++i) out[i] = scale * (static_cast<float>(quants[i]) * 0.125F);
}

struct Iq1S {
  Half scale;
  uint8_t low[32];
  uint8_t rest[8][2];  // four times 3 bits of index, 3 bits of scale, the sign of the delta
};

void iq1_s(const Iq1S& block, float* out) {
  const float scale = value_of(block.scale);
  for (size_t i = 0; i < 8; ++i) {
    const unsigned rest = short_at(block.rest[i]);
    Quants<32> quants;
    for (size_t j = 0; j < 4; ++j)
      store_eighths(block.low[4 * i + j] | (rest >> 3 * j & 7) << 8, (rest & 0x8000) != 0, &quants[8 * j]);
    scale_eighths<32>(scale * static_cast<float>(2 * (rest >> 12 & 7) + 1), quants.data(), out + 32 * i);
  }
}

struct Iq1M {
  uint8_t low[32];
  uint8_t high[16];      // for each half byte: 3 bits of index, the sign of the delta
  uint8_t scales[4][2];  // four times 3 bits of scale, 4 bits of the scale of the block
};

void iq1_m(const Iq1M& block, float* out) {
  unsigned all = 0;
  for (size_t i = 0; i < 4; ++i) all |= static_cast<unsigned>(block.scales[i][1] >> 4) << 4 * i;
  const float scale = half_value(static_cast<uint16_t>(all));
  for (size_t i = 0; i < 16; ++i) {
    Quants<16> quants;
    for (size_t j = 0; j < 2; ++j) {
      const unsigned high = block.high[i] >> 4 * j & 15U;
      store_eighths(block.low[2 * i + j] | (high & 7) << 8, (high & 8) != 0, &quants[8 * j]);
    }
    const unsigned part = short_at(block.scales[i / 4]) >> i % 4 * 3 & 7U;
    scale_eighths<16>(scale * static_cast<float>(2 * part + 1), quants.data(), out + 16 * i);
  }
}

// Quants of 4 bits that are not linear.
constexpr std::array<int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

struct Iq4Nl {
  Half scale;
  uint8_t quants[16];
};

void iq4_nl(const Iq4Nl& block, float* out) {
  Quants<32> quants;
  look_up_halves<16>(kIq4Values, block.quants, quants.data());
  scale_quants<32>(value_of(block.scale), quants.data(), out);
}

struct Iq4Xs {
  Half scale;
  uint8_t high[2];  // 2 bits of each part's scale
  uint8_t low[4];   // 4 bits
  uint8_t quants[128];
};

void iq4_xs(const Iq4Xs& block, float* out) {
  const float scale = value_of(block.scale);
  for (size_t i = 0; i < 8; ++i) {
    Quants<32> quants;
    look_up_halves<16>(kIq4Values, block.quants + 16 * i, quants.data());
    const int part = (block.low[i / 2] >> i % 2 * 4 & 15) | (short_at(block.high) >> 2 * i & 3) << 4;
    scale_quants<32>(scale * static_cast<float>(part - 32), quants.data(), out + 32 * i);
  }
}

constexpr std::array kGrids = {
    conversion_of_blocks<Iq1M, 256, iq1_m>("iq1_m"),       conversion_of_blocks<Iq1S, 256, iq1_s>("iq1_s"),
    conversion_of_blocks<Iq2S, 256, iq2_s>("iq2_s"),       conversion_of_blocks<Iq2Xs, 256, iq2_xs>("iq2_xs"),
    conversion_of_blocks<Iq2Xxs, 256, iq2_xxs>("iq2_xxs"), conversion_of_blocks<Iq3S, 256, iq3_s>("iq3_s"),
    conversion_of_blocks<Iq3Xxs, 256, iq3_xxs>("iq3_xxs"), conversion_of_blocks<Iq4Nl, 32, iq4_nl>("iq4_nl"),
    conversion_of_blocks<Iq4Xs, 256, iq4_xs>("iq4_xs"),
};

static_assert(is_sorted(kGrids));

}  // namespace

std::span<const Conversion> grid_conversions() { return kGrids; }

}  // namespace weightfs::float32
