// The element types of ONNX tensors, and where a TensorProto has the elements of each.
#pragma once

#include "formats/common/type_codes.h"
#include "formats/protobuf/numbers.h"

namespace weightfs::onnx {

/// A TensorProto.DataType.
struct ElementType : TypeCode {
  uint32_t field;           ///< the repeated field of TensorProto for its numbers; 0 for strings
  protobuf::WireType wire;  ///< of these numbers
  uint32_t width;           ///< bytes per number: an element, half a complex element, or a byte of packed elements
};

inline constexpr int32_t kStringType = 8;

extern const TypeCodes<ElementType> kElementTypes;

}  // namespace weightfs::onnx
