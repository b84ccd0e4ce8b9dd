// The enums of the TFLite schema: types of tensors, builtin operators.
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/common/type_codes.h"

namespace weightfs::tflite {

/// The TensorType of the schema.
extern const TypeCodes<> kTensorTypes;

/// The name of a BuiltinOperator: "CONV_2D"; empty for a number of a newer schema.
std::string_view operator_name(int32_t number);

/// The number of operators without a name of their own: a custom_code has it.
inline constexpr int32_t kCustom = 32;

}  // namespace weightfs::tflite
