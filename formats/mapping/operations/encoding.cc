#include "formats/mapping/operations/encoding.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "formats/float32.h"

namespace weightfs::mapping {
namespace {

constexpr size_t kQ8Numbers = 32;  // numbers in a block of q8_0
constexpr size_t kQ8Bytes = 34;    // its scale, as float16, and the numbers as int8

// A register of `kBytes` bytes.
template <size_t kBytes>
struct Register {
  typedef float Floats __attribute__((vector_size(kBytes)));
  typedef int32_t Ints __attribute__((vector_size(kBytes)));
  typedef int16_t Shorts __attribute__((vector_size(kBytes)));
  typedef int8_t Bytes __attribute__((vector_size(kBytes)));
  static constexpr size_t kCount = kBytes / sizeof(float);
};

// The lower halves of the elements of two registers.
template <class Narrow, class Wide, size_t... kIndex>
[[gnu::always_inline]] inline void narrow(const Wide& first, const Wide& second, Narrow& out,
                                          std::index_sequence<kIndex...>) {
  static_assert(std::endian::native == std::endian::little);
  out = __builtin_shufflevector(reinterpret_cast<Narrow>(first), reinterpret_cast<Narrow>(second), (2 * kIndex)...);
}
template <class Narrow, class Wide>
[[gnu::always_inline]] inline void narrow(const Wide& first, const Wide& second, Narrow& out) {
  narrow(first, second, out, std::make_index_sequence<sizeof(Narrow) / sizeof(out[0])>());
}

struct EncodeFloat32 {
  template <size_t kBytes>
  [[gnu::always_inline]] static inline void run(const float* numbers, std::byte* out, size_t blocks) {
    std::memcpy(out, numbers, blocks * sizeof(float));
  }
};

struct EncodeBfloat16 {
  template <size_t kBytes>
  [[gnu::always_inline]] static inline void run(const float* numbers, std::byte* out, size_t blocks) {
    for (size_t i = 0; i < blocks; ++i) {
      const uint16_t half = to_bfloat16(numbers[i]);
      std::memcpy(out + i * sizeof half, &half, sizeof half);
    }
  }
};

struct EncodeFloat16 {
  template <size_t kBytes>
  [[gnu::always_inline]] static inline void run(const float* numbers, std::byte* out, size_t blocks) {
    constexpr size_t kBoth = 2 * Register<kBytes>::kCount;
    const size_t whole = blocks / kBoth * kBoth;
    for (size_t i = 0; i < whole; i += kBoth) {
      typename Register<kBytes>::Floats values[2];
      typename Register<kBytes>::Ints bits[2];
      typename Register<kBytes>::Shorts halves;
      std::memcpy(&values[0], numbers + i, kBytes);
      std::memcpy(&values[1], numbers + i + kBoth / 2, kBytes);
      float16_bits(values[0], bits[0]);
      float16_bits(values[1], bits[1]);
      narrow(bits[0], bits[1], halves);
      std::memcpy(out + i * sizeof(uint16_t), &halves, sizeof halves);
    }
    for (size_t i = whole; i < blocks; ++i) {
      const uint16_t half = to_float16(numbers[i]);
      std::memcpy(out + i * sizeof half, &half, sizeof half);
    }
  }
};

struct EncodeQ8 {
  template <size_t kBytes>
  [[gnu::always_inline]] static inline void run(const float* numbers, std::byte* out, size_t blocks) {
    for (size_t block = 0; block < blocks; ++block, numbers += kQ8Numbers, out += kQ8Bytes) {
      const float scale = largest_magnitude<kBytes>(numbers) / 127.0F;
      const float inverse = scale == 0 ? 0 : 1.0F / scale;
      const uint16_t stored = to_float16(scale);
      std::memcpy(out, &stored, sizeof stored);
      for (size_t i = 0; i < kQ8Numbers; i += kBytes) quantise<kBytes>(numbers + i, inverse, out + sizeof stored + i);
    }
  }

 private:
  static constexpr int32_t kMagnitude = 0x7FFF'FFFF;

  // Without NaNs. Magnitudes are in the order of their bits.
  template <size_t kBytes>
  [[gnu::always_inline]] static inline float largest_magnitude(const float* numbers) {
    using Ints = typename Register<kBytes>::Ints;
    constexpr int32_t kInfinity = 0x7F80'0000;
    Ints largest{};
    for (size_t i = 0; i < kQ8Numbers; i += Register<kBytes>::kCount) {
      Ints bits;
      std::memcpy(&bits, numbers + i, sizeof bits);
      const Ints magnitude = bits & kMagnitude;
      const Ints number = magnitude & ~((kInfinity - magnitude) >> 31);
      largest = number > largest ? number : largest;
    }
    int32_t most = 0;
    for (size_t i = 0; i < Register<kBytes>::kCount; ++i) most = std::max(most, largest[i]);
    return std::bit_cast<float>(most);
  }

  // Four registers of numbers become one of quants.
  template <size_t kBytes>
  [[gnu::always_inline]] static inline void quantise(const float* numbers, float inverse, std::byte* out) {
    typename Register<kBytes>::Ints rounded[4];
    for (size_t i = 0; i < 4; ++i) round_away<kBytes>(numbers + i * Register<kBytes>::kCount, inverse, rounded[i]);
    typename Register<kBytes>::Shorts shorts[2];
    narrow(rounded[0], rounded[1], shorts[0]);
    narrow(rounded[2], rounded[3], shorts[1]);
    typename Register<kBytes>::Bytes bytes;
    narrow(shorts[0], shorts[1], bytes);
    std::memcpy(out, &bytes, sizeof bytes);
  }

  // The nearest integers of products, halves away from zero; 0 for infinities and NaNs. Exact for magnitudes below 256.
  template <size_t kBytes>
  [[gnu::always_inline]] static inline void round_away(const float* numbers, float factor,
                                                       typename Register<kBytes>::Ints& out) {
    using Ints = typename Register<kBytes>::Ints;
    using Floats = typename Register<kBytes>::Floats;
    constexpr int32_t kTooLarge = std::bit_cast<int32_t>(256.0F);
    Floats product;
    std::memcpy(&product, numbers, sizeof product);
    product *= factor;
    const Ints bits = reinterpret_cast<Ints>(product);
    const Ints magnitude = bits & kMagnitude;
    const Floats finite = reinterpret_cast<Floats>(magnitude & ((magnitude - kTooLarge) >> 31));
    const Ints halves = __builtin_convertvector(finite + finite, Ints);
    const Ints sign = bits >> 31;  // all bits or none
    out = ((halves + 1) >> 1 ^ sign) - sign;
  }
};

template <class Kernel>
void run(const float* numbers, std::byte* out, size_t blocks) {
  Kernel::template run<16>(numbers, out, blocks);
}

#if defined(__x86_64__)
template <class Kernel>
[[gnu::target("avx2")]] void run_avx2(const float* numbers, std::byte* out, size_t blocks) {
  Kernel::template run<32>(numbers, out, blocks);
}
#endif

template <class Kernel>
Encoding encoding(size_t numbers, size_t bytes, Instructions instructions) {
#if defined(__x86_64__)
  if (instructions == Instructions::fastest && __builtin_cpu_supports("avx2") != 0)
    return {numbers, bytes, run_avx2<Kernel>};
#endif
  return {numbers, bytes, run<Kernel>};
}

}  // namespace

Encoding encoding_of(GgufType type, Instructions instructions) {
  if (type == GgufType::float16) return encoding<EncodeFloat16>(1, sizeof(uint16_t), instructions);
  if (type == GgufType::bfloat16) return encoding<EncodeBfloat16>(1, sizeof(uint16_t), instructions);
  if (type == GgufType::q8_0) return encoding<EncodeQ8>(kQ8Numbers, kQ8Bytes, instructions);
  return encoding<EncodeFloat32>(1, sizeof(float), instructions);
}

}  // namespace weightfs::mapping
