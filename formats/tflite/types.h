// The enums of the TFLite schema: types of tensors, builtin operators.
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/dtype.h"

namespace weightfs::tflite {

/// A TensorType of the schema.
struct TensorType {
  std::string_view name;  ///< in the schema's spelling: "FLOAT32"; empty for a number of a newer schema
  const DType* dtype;     ///< &kUnknownDType for types that are not numbers or texts
};

TensorType tensor_type(int8_t number);

/// The name of a BuiltinOperator: "CONV_2D"; empty for a number of a newer schema.
std::string_view operator_name(int32_t number);

/// The number of operators without a name of their own: a custom_code has it.
inline constexpr int32_t kCustom = 32;

}  // namespace weightfs::tflite
