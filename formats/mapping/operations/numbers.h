// The numbers of a tensor changed and in the type that a GGUF has them in.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "formats/tensor_list.h"

namespace weightfs::mapping {

/// What is computed of each number, as float32.
enum class Arithmetic : uint8_t {
  none,
  plus_one,
  minus_one,
  decay,     ///< -e^x
  exponent,  ///< the reverse: ln(-x)
};

/// The types of a GGUF that is made here. Those of norms and biases are float32 in any of them.
enum class GgufType : uint8_t {
  stored,  ///< the type of the first matrix of 16 bits; float16 if there is none
  float32,
  float16,
  bfloat16,
  q8_0,
};

/// `tensor` with its numbers changed and converted to `type`; `stored`: as they are, or float32 if they are changed.
/// Rounded once, to the nearest, ties
/// to even; for q8_0 as quantize_row_q8_0_ref of ggml, halves away from zero. A block of q8_0 has 32 numbers of a row,
/// which must be whole blocks. The bytes are those of `tensor` if nothing changes. The size is known without reading.
/// Fails with unsupported if elements are not real numbers.
Result<Tensor> with_numbers(Tensor tensor, Arithmetic arithmetic, GgufType type);

/// The numbers of a list as a tensor of float32.
Tensor float32_tensor(std::string name, const std::vector<float>& numbers);

}  // namespace weightfs::mapping
