// How numbers of float32 are encoded in a GGUF: blocks of some numbers in some bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightfs::mapping {

/// The types of a GGUF that is made here. Those of norms and biases are float32 in any of them.
enum class GgufType : uint8_t {
  stored,  ///< the type of the first matrix of 16 bits; float16 if there is none
  float32,
  float16,
  bfloat16,
  q8_0,
};

/// The instructions that an encoding uses. The bytes are the same.
enum class Instructions : uint8_t {
  common,   ///< those that every processor of this architecture has
  fastest,  ///< the fastest that this processor has
};

inline constexpr size_t kMostBlockBytes = 34;

struct Encoding {
  size_t numbers;  ///< of a block
  size_t bytes;    ///< of a block: at most kMostBlockBytes
  /// Encodes whole blocks. The ranges do not overlap; `out` may have any alignment.
  void (*encode)(const float* numbers, std::byte* out, size_t blocks);
};

/// The encoding of a type: numbers are rounded once, to the nearest, ties to even. q8_0 as quantize_row_q8_0_ref of
/// ggml: 32 numbers as a float16 scale and as int8, halves away from zero. There a NaN, and a number divided by a scale
/// so small that the quotient is infinite, is 0. `stored` is float32.
Encoding encoding_of(GgufType type, Instructions instructions = Instructions::fastest);

}  // namespace weightfs::mapping
