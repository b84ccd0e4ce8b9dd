// The numbers of GGUF by name: ggml's tensor types and llama.cpp's file types.
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/dtype.h"

namespace weightfs::gguf {

/// A ggml_type (ggml.h).
struct TensorType {
  std::string_view name;  ///< as ggml.h spells it: "Q4_K"; empty when the number has no name that can be relied on
  const DType* dtype;     ///< &kUnknownDType for a number that no known version of ggml gives a size to
  std::string_view note;  ///< what a warning has to say about tensors of this type; empty for the types of today
};

/// The type of number `id`; every number has one.
TensorType tensor_type(uint32_t id);

/// The name of a llama_ftype (llama.h), the value of `general.file_type`: "Q4_K_M". Empty when it is not known.
std::string_view file_type_name(uint64_t number);

}  // namespace weightfs::gguf
