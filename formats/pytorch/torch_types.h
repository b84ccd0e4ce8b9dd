// The element types of PyTorch, by the names of dtypes and of classes of storages.
#pragma once

#include <string_view>

#include "formats/dtype.h"

namespace weightfs::pytorch {

/// An element type.
struct TorchType {
  std::string_view name;     ///< of the dtype: "float32"
  std::string_view storage;  ///< of the class, without "Storage": "Float"; empty if there is none
  const DType* dtype;        ///< &kUnknownDType if its values have no name outside of PyTorch
  DType layout;              ///< how elements lie in a storage
  uint32_t swapped;          ///< bytes per number, whose order depends on the machine; a complex element has two
};

/// The type of a dtype's global, such as "torch.float32"; null if it is unknown.
const TorchType* type_of_dtype(std::string_view global);

/// The type of a class of storages, such as "torch.FloatStorage" or "torch.cuda.FloatStorage"; null if it is unknown or
/// untyped.
const TorchType* type_of_storage(std::string_view global);

/// Whether this is the class of storages of bytes, whose tensors name their dtype.
bool is_untyped_storage(std::string_view global);

}  // namespace weightfs::pytorch
