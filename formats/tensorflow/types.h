// TensorFlow's types of elements.
#pragma once

#include <cstdint>

#include "formats/common/type_codes.h"
#include "formats/protobuf/scanner.h"

namespace weightfs::tensorflow {

/// A DataType of types.proto, and the field of a TensorProto that has its values.
struct ElementType : TypeCode {
  uint32_t field;           ///< its number; 0 if there is none
  protobuf::WireType wire;  ///< of each number in the field
  uint32_t width;           ///< the bytes of an element that each number has

  bool is_text() const { return dtype == "string"; }
  /// Bytes per number whose order differs on big-endian machines; 0 for none.
  uint32_t swapped_bytes() const;
};

/// The type with this number. A reference to a type (the number plus 100) is the type. Null if it is unknown.
const ElementType* find_type(uint64_t number);

/// "DT_FLOAT", or "unknown(99)".
std::string type_name(uint64_t number);

/// "float32"; the name of an unknown or another type is that of type_name().
std::string dtype_name(uint64_t number);

}  // namespace weightfs::tensorflow
