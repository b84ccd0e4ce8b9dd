// The element types of Core ML's programs and of its weight files.
#pragma once

#include <string>

#include "formats/dtype.h"

namespace weightfs::coreml {

/// A data type of MIL, the language of programs.
struct ElementType {
  int32_t id;
  std::string_view name;   ///< as coremltools spells it: "FLOAT16"
  std::string_view dtype;  ///< the name of its row in dtype.h
  bool packed;             ///< several elements per byte
  uint32_t blob_type;      ///< of a record of a weight file; 0 if there are no such records
};

/// The type with this number; null if it is unknown, or no number.
const ElementType* find_type(int32_t id);

/// The row of the dtype table.
const DType* dtype_of(const ElementType& type);

/// "FLOAT16", or "unknown(99)".
std::string type_name(int32_t id);

}  // namespace weightfs::coreml
