// The element types of Core ML's programs and of its weight files.
#pragma once

#include "formats/common/type_codes.h"

namespace weightfs::coreml {

/// A data type of MIL, the language of programs.
struct ElementType : TypeCode {
  uint32_t blob_type;  ///< of a record of a weight file; 0 if there are no such records
};

extern const TypeCodes<ElementType> kElementTypes;

}  // namespace weightfs::coreml
