// The numbers of a tensor changed and in the type that a GGUF has them in.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "formats/mapping/operations/encoding.h"
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

/// `tensor` with its numbers changed and encoded as `type`; `stored`: as they are, or float32 if they are changed. A
/// block of q8_0 has 32 numbers of a row, which must be whole blocks. The bytes are those of `tensor` if nothing
/// changes. The size is known without reading. Fails with unsupported if elements are not real numbers.
Result<Tensor> with_numbers(Tensor tensor, Arithmetic arithmetic, GgufType type);

/// The numbers of a list as a tensor of float32.
Tensor float32_tensor(std::string name, const std::vector<float>& numbers);

}  // namespace weightfs::mapping
