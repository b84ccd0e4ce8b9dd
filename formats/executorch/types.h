// The types of values in ExecuTorch files, numbered as torch's ScalarType.
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/dtype.h"

namespace weightfs::executorch {

struct ScalarType {
  std::string_view name;  ///< in the schema's spelling: "FLOAT"; empty for an unknown number
  const DType* dtype;     ///< &kUnknownDType for packed and unknown ones
};

ScalarType scalar_type(int8_t number);

}  // namespace weightfs::executorch
