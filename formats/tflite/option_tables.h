// The options of TFLite's builtin operators: the tables of the unions BuiltinOptions and BuiltinOptions2 of the schema.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weightfs::tflite {

/// How a field is stored.
enum class OptionKind : uint8_t {
  deprecated,  ///< a slot that is not read
  boolean,
  int8,
  int32,
  uint32,
  int64,
  float32,
  tensor_type,  ///< an int8: a TensorType
  text,
  bytes,  ///< a list of bytes that is not for readers
  boolean_list,
  int32_list,
  uint32_list,
  int64_list,
  float32_list,
};

struct OptionField {
  std::string_view name;  ///< in the schema's spelling
  OptionKind kind;
  std::span<const std::string_view> names = {};  ///< of an enum's values, from 0; empty for a number
  int8_t absent = 0;                             ///< the value of a number that the table does not have
};

struct OptionTable {
  std::string_view name;                ///< in the schema's spelling: "Conv2DOptions"
  std::span<const OptionField> fields;  ///< by their slots
};

/// The member with this number of the union; nullptr for 0 and for one of a newer schema.
const OptionTable* builtin_options(uint8_t number);
const OptionTable* builtin_options_2(uint8_t number);

}  // namespace weightfs::tflite
