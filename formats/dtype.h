// The element types that tensors have, one row each: what NumPy and ml_dtypes call them, and how many bytes they take.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weightfs {

/// A row of the table of element types. Quantised ggml types are rows with a block of 32 to 256 elements.
struct DType {
  std::string_view name;  ///< as NumPy, ml_dtypes or ggml (in lower case) spell it: "float32", "bfloat16", "q4_k"
  uint32_t block;         ///< elements per block: 1, or more for sub-byte and quantised types
  uint32_t block_bytes;   ///< bytes per block; 0 when elements have no fixed size (string) or the type is not known
  std::string_view npy_descr;  ///< the `descr` of its .npy view ("<f4"); empty when it has none
  bool npy_packed;             ///< the .npy view has bytes, not elements: its last dimension is in bytes
};

/// The row named `name`; null when there is none.
const DType* dtype_named(std::string_view name);

/// The row of the same type and name whose values are stored big-endian: only the .npy view differs (">f4"). A type
/// whose values are single bytes or that has no .npy view is its own; bfloat16 gets a row without view, as void has no
/// byte order. dtype_named never returns such a row.
const DType* big_endian(const DType* dtype);

/// Stands for a type that the reader does not know: such a tensor has a size, but no bytes per element.
extern const DType kUnknownDType;

}  // namespace weightfs
