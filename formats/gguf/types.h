// The numbers of GGUF by name: ggml's tensor types and llama.cpp's file types.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/dtype.h"

namespace weightfs::gguf {

/// A ggml_type (ggml.h).
struct TensorType {
  std::string_view name;  ///< as in ggml.h: "Q4_K"; empty if the number has no reliable name
  const DType* dtype;     ///< &kUnknownDType for a number without a size in any known version of ggml
  std::string_view note;  ///< the warning about tensors of this type; empty for current types
};

/// The type of number `id`; every number has one.
TensorType tensor_type(uint32_t id);

/// The name of a llama_ftype (llama.h), the value of `general.file_type`: "Q4_K_M". Empty if unknown.
std::string_view file_type_name(uint64_t number);

/// All these names.
std::vector<std::string_view> file_type_names();

}  // namespace weightfs::gguf
