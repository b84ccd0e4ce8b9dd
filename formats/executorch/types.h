// The types of values in ExecuTorch files, numbered as torch's ScalarType.
#pragma once

#include "formats/common/type_codes.h"

namespace weightfs::executorch {

/// The dtype of a quantised type is that of the stored numbers.
extern const TypeCodes<> kScalarTypes;

}  // namespace weightfs::executorch
