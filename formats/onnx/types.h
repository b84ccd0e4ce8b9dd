// The element types of ONNX tensors, and where a TensorProto has the elements of each.
#pragma once

#include <string>

#include "formats/dtype.h"
#include "formats/protobuf/numbers.h"

namespace weightfs::onnx {

/// TensorProto.DataType.
struct ElementType {
  int32_t id;
  std::string_view name;    ///< as ONNX spells it: "FLOAT"
  std::string_view dtype;   ///< the name of its row in dtype.h
  bool packed;              ///< several elements per byte
  uint32_t field;           ///< the repeated field of TensorProto for its numbers; 0 for strings
  protobuf::WireType wire;  ///< of these numbers
  uint32_t width;           ///< bytes per number: an element, half a complex element, or a byte of packed elements
};

inline constexpr int32_t kStringType = 8;

/// The type with this number; null if it is unknown.
const ElementType* find_type(int32_t id);

/// The row of the dtype table.
const DType* dtype_of(const ElementType& type);

/// "FLOAT", or "unknown(99)".
std::string type_name(int32_t id);

}  // namespace weightfs::onnx
