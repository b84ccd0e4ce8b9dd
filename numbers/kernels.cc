#include "numbers/kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace weightfs::numbers {
namespace {

constexpr size_t kLanes = 8;  // the parts of a sum

using Lanes = std::array<double, kLanes>;

// Vectors of one register of the processor (16 or 32 bytes), because compilers make poor code of larger ones.
template <size_t kBytes>
struct Register {
  typedef double Doubles __attribute__((vector_size(kBytes)));
  typedef int64_t Masks __attribute__((vector_size(kBytes)));
  typedef float Floats __attribute__((vector_size(kBytes / 2)));  // as many
  static constexpr size_t kCount = kBytes / sizeof(double);
  static constexpr size_t kParts = kLanes / kCount;  // registers of a sum
};

template <size_t kBytes>
[[gnu::always_inline]] inline void load(const double* from, typename Register<kBytes>::Doubles& to) {
  std::memcpy(&to, from, sizeof(to));
}
template <size_t kBytes>
[[gnu::always_inline]] inline void load(const float* from, typename Register<kBytes>::Doubles& to) {
  typename Register<kBytes>::Floats floats;
  std::memcpy(&floats, from, sizeof(floats));
  to = __builtin_convertvector(floats, typename Register<kBytes>::Doubles);
}

template <size_t kBytes>
struct Parts {
  typename Register<kBytes>::Doubles of[Register<kBytes>::kParts];
};

template <size_t kBytes>
Lanes lanes_of(const Parts<kBytes>& parts) {
  Lanes out;
  std::memcpy(out.data(), parts.of, sizeof(out));
  return out;
}

double total(const Lanes& lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

struct SumBlock {
  template <size_t kBytes, class T>
  [[gnu::always_inline]] static inline void run(const T* from, size_t count, BlockSums* out) {
    using Doubles = typename Register<kBytes>::Doubles;
    using Masks = typename Register<kBytes>::Masks;
    constexpr size_t kCount = Register<kBytes>::kCount;
    const Doubles one = 1.0 - Doubles{};
    const Masks magnitude_bits = INT64_MAX - Masks{};
    Parts<kBytes> sum{}, magnitude{}, least{}, most{}, zeros{};
    for (auto& part : least.of) part = static_cast<double>(from[0]) - Doubles{};
    most = least;
    const size_t whole = count / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes) {
      for (size_t part = 0; part < Register<kBytes>::kParts; ++part) {
        Doubles value;
        load<kBytes>(from + i + part * kCount, value);
        sum.of[part] += value;
        magnitude.of[part] += reinterpret_cast<Doubles>(reinterpret_cast<Masks>(value) & magnitude_bits);
        least.of[part] = value < least.of[part] ? value : least.of[part];
        most.of[part] = value > most.of[part] ? value : most.of[part];
        zeros.of[part] += reinterpret_cast<Doubles>((value == 0.0) & reinterpret_cast<Masks>(one));
      }
    }
    Lanes sums = lanes_of(sum), magnitudes = lanes_of(magnitude), lows = lanes_of(least), highs = lanes_of(most);
    out->zeros = static_cast<uint64_t>(total(lanes_of(zeros)));
    for (size_t i = whole; i < count; ++i) {
      const auto value = static_cast<double>(from[i]);
      sums[i - whole] += value;
      magnitudes[i - whole] += std::abs(value);
      lows[0] = std::min(lows[0], value);
      highs[0] = std::max(highs[0], value);
      out->zeros += value == 0 ? 1U : 0U;
    }
    out->sum = total(sums);
    out->magnitude = total(magnitudes);
    out->min = *std::ranges::min_element(lows);
    out->max = *std::ranges::max_element(highs);
  }
};

struct SumPowers {
  template <size_t kBytes, class T>
  [[gnu::always_inline]] static inline void run(const T* from, size_t count, double mean, BlockPowers* out) {
    using Doubles = typename Register<kBytes>::Doubles;
    constexpr size_t kCount = Register<kBytes>::kCount;
    Parts<kBytes> second{}, third{}, fourth{};
    const size_t whole = count / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes) {
      for (size_t part = 0; part < Register<kBytes>::kParts; ++part) {
        Doubles value;
        load<kBytes>(from + i + part * kCount, value);
        const Doubles distance = value - mean;
        const Doubles square = distance * distance;
        second.of[part] += square;
        third.of[part] += square * distance;
        fourth.of[part] += square * square;
      }
    }
    Lanes seconds = lanes_of(second), thirds = lanes_of(third), fourths = lanes_of(fourth);
    for (size_t i = whole; i < count; ++i) {
      const double distance = static_cast<double>(from[i]) - mean;
      const double square = distance * distance;
      seconds[i - whole] += square;
      thirds[i - whole] += square * distance;
      fourths[i - whole] += square * square;
    }
    *out = {total(seconds), total(thirds), total(fourths)};
  }
};

struct SumPairs {
  template <size_t kBytes, class T>
  [[gnu::always_inline]] static inline void run(const T* a, const T* b, size_t count, PairSums* out) {
    using Doubles = typename Register<kBytes>::Doubles;
    using Masks = typename Register<kBytes>::Masks;
    constexpr size_t kCount = Register<kBytes>::kCount;
    const Doubles one = 1.0 - Doubles{};
    const Masks magnitude_bits = INT64_MAX - Masks{};
    Parts<kBytes> absolute{}, square{}, product{}, square_a{}, square_b{}, most{}, differing{};
    const size_t whole = count / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes) {
      for (size_t part = 0; part < Register<kBytes>::kParts; ++part) {
        Doubles x, y;
        load<kBytes>(a + i + part * kCount, x);
        load<kBytes>(b + i + part * kCount, y);
        const Doubles difference = reinterpret_cast<Doubles>(reinterpret_cast<Masks>(x - y) & magnitude_bits);
        absolute.of[part] += difference;
        square.of[part] += difference * difference;
        product.of[part] += x * y;
        square_a.of[part] += x * x;
        square_b.of[part] += y * y;
        most.of[part] = difference > most.of[part] ? difference : most.of[part];
        differing.of[part] += reinterpret_cast<Doubles>((x != y) & reinterpret_cast<Masks>(one));
      }
    }
    Lanes absolutes = lanes_of(absolute), squares = lanes_of(square), products = lanes_of(product),
          squares_a = lanes_of(square_a), squares_b = lanes_of(square_b), highs = lanes_of(most);
    out->differing = static_cast<uint64_t>(total(lanes_of(differing)));
    for (size_t i = whole; i < count; ++i) {
      const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      const double difference = std::abs(x - y);
      const size_t lane = i - whole;
      absolutes[lane] += difference;
      squares[lane] += difference * difference;
      products[lane] += x * y;
      squares_a[lane] += x * x;
      squares_b[lane] += y * y;
      highs[lane] = std::max(highs[lane], difference);
      out->differing += x == y ? 0U : 1U;
    }
    out->absolute = total(absolutes);
    out->square = total(squares);
    out->product = total(products);
    out->square_a = total(squares_a);
    out->square_b = total(squares_b);
    out->max = *std::ranges::max_element(highs);
  }
};

struct CountNotFinite {
  template <size_t kBytes, class T>
  [[gnu::always_inline]] static inline void run(const T* from, size_t count, size_t* out) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr Bits kExponent = sizeof(T) == 4 ? Bits{0x7F800000} : static_cast<Bits>(0x7FF0000000000000);
    Bits found = 0;  // at most Elements::kBlock
    for (size_t i = 0; i < count; ++i) found += (std::bit_cast<Bits>(from[i]) & kExponent) == kExponent ? 1U : 0U;
    *out = found;
  }
};

struct AddColumns {
  template <size_t kBytes, class T>
  [[gnu::always_inline]] static inline void run(const T* from, size_t count, double* squares, double* most) {
    for (size_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(from[i]);
      squares[i] += value * value;
      most[i] = std::abs(value) > most[i] ? std::abs(value) : most[i];
    }
  }
};

struct CountWithinUlps {
  template <size_t kBytes, class T>
  [[gnu::always_inline]] static inline void run(const T* a, const T* b, size_t count, const Precision* precision,
                                                std::array<uint64_t, kUlps.size()>* out) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52;
    constexpr int kBias = sizeof(T) == 4 ? 127 : 1023;
    constexpr Bits kExponent = (sizeof(T) == 4 ? Bits{0xFF} : Bits{0x7FF}) << kMantissa;
    const Bits least = static_cast<Bits>(std::max(precision->min_exponent + kBias, 1)) << kMantissa;
    const T scale = std::bit_cast<T>(static_cast<Bits>(kBias - precision->mantissa_bits) << kMantissa);
    Bits found[kUlps.size()] = {};  // at most Elements::kBlock
    for (size_t i = 0; i < count; ++i) {
      const T magnitude = std::max(std::abs(a[i]), std::abs(b[i]));
      const T difference = std::abs(a[i] - b[i]);
      const T ulp = std::bit_cast<T>(std::max(std::bit_cast<Bits>(magnitude) & kExponent, least)) * scale;
      for (size_t k = 0; k < kUlps.size(); ++k) found[k] += difference <= static_cast<T>(kUlps[k]) * ulp ? 1U : 0U;
    }
    for (size_t k = 0; k < kUlps.size(); ++k) (*out)[k] = found[k];
  }
};

#if defined(__x86_64__)
template <class Kernel, class... Arguments>
[[gnu::target("avx2")]] void run_avx2(Arguments... arguments) {
  Kernel::template run<32>(arguments...);
}
#endif

// Runs a kernel, which is compiled for all processors, and for those with AVX2. FMA is not used: it has other bits.
template <class Kernel, class... Arguments>
void run(Arguments... arguments) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return run_avx2<Kernel>(arguments...);
#endif
  Kernel::template run<16>(arguments...);
}

template <class Kernel, class Out, class T, class... Arguments>
Out result_of(std::span<const T> block, Arguments... arguments) {
  Out out{};
  run<Kernel>(block.data(), block.size(), arguments..., &out);
  return out;
}

template <class T>
PairSums sums_of_pairs(std::span<const T> a, std::span<const T> b) {
  PairSums out;
  run<SumPairs>(a.data(), b.data(), a.size(), &out);
  return out;
}

template <class T>
std::array<uint64_t, kUlps.size()> ulps_of(std::span<const T> a, std::span<const T> b, const Precision& precision) {
  std::array<uint64_t, kUlps.size()> out{};
  run<CountWithinUlps>(a.data(), b.data(), a.size(), &precision, &out);
  return out;
}

}  // namespace

BlockSums sums_of(std::span<const float> block) { return result_of<SumBlock, BlockSums>(block); }
BlockSums sums_of(std::span<const double> block) { return result_of<SumBlock, BlockSums>(block); }
BlockPowers powers_of(std::span<const float> block, double mean) {
  return result_of<SumPowers, BlockPowers>(block, mean);
}
BlockPowers powers_of(std::span<const double> block, double mean) {
  return result_of<SumPowers, BlockPowers>(block, mean);
}
PairSums pair_sums_of(std::span<const float> a, std::span<const float> b) { return sums_of_pairs(a, b); }
PairSums pair_sums_of(std::span<const double> a, std::span<const double> b) { return sums_of_pairs(a, b); }
size_t count_not_finite(std::span<const float> block) { return result_of<CountNotFinite, size_t>(block); }
size_t count_not_finite(std::span<const double> block) { return result_of<CountNotFinite, size_t>(block); }
std::array<uint64_t, kUlps.size()> count_within_ulps(std::span<const float> a, std::span<const float> b,
                                                     const Precision& precision) {
  return ulps_of(a, b, precision);
}
std::array<uint64_t, kUlps.size()> count_within_ulps(std::span<const double> a, std::span<const double> b,
                                                     const Precision& precision) {
  return ulps_of(a, b, precision);
}
void add_columns(std::span<const float> block, double* squares, double* most) {
  run<AddColumns>(block.data(), block.size(), squares, most);
}
void add_columns(std::span<const double> block, double* squares, double* most) {
  run<AddColumns>(block.data(), block.size(), squares, most);
}

}  // namespace weightfs::numbers
