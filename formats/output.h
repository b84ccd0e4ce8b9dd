// The types of formats that a model is shown in, besides its own (fs/views): their names and numbers.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

#include "formats/tensor_list.h"

namespace weightfs {

/// A dtype of safetensors.
struct SafetensorsType {
  std::string_view name;  ///< "F32"
  int rank;               ///< in the order of the reference, which writes the tensors of the highest rank first
};

/// The dtype of safetensors that has the bytes of this tensor; nothing if there is none. Big-endian numbers have none.
std::optional<SafetensorsType> safetensors_type(const TensorView& tensor);

/// The number of the ggml_type that has the bytes of this tensor in a GGUF file of this byte order; nothing if there is
/// none in the current version of ggml.
std::optional<uint32_t> gguf_type(const TensorView& tensor, std::endian order);

/// The key of GGUF for a common field of models ("name": "general.name"); empty if it has none.
std::string_view gguf_key_of(std::string_view common_field);

/// The ggml_type F32.
inline constexpr uint32_t kGgufFloat32 = 0;

}  // namespace weightfs
