// The element types of tensors, one row each: the names of NumPy and ml_dtypes, and the size in bytes.
#pragma once

#include <cstdint>
#include <string_view>

namespace weightfs {

/// How the bytes of a type differ from those of the row that dtype_named() finds.
enum class ByteOrder : uint8_t {
  little,
  big,    ///< numbers, also those in blocks, are big-endian
  pairs,  ///< mxfp4 of Ollama 0.11.0 to 0.11.7: the two elements of a byte are neighbours
};

/// A row of the table of element types. Quantised ggml types are rows with a block of 32 to 256 elements.
struct DType {
  std::string_view name;  ///< as NumPy, ml_dtypes or ggml (in lower case) spell it: "float32", "bfloat16", "q4_k"
  uint32_t block;         ///< elements per block: 1, or more for sub-byte and quantised types
  uint32_t block_bytes;   ///< bytes per block; 0 when elements have no fixed size (string) or the type is not known
  /// The `descr` of NumPy's type of the same elements ("<f4"); of smaller integers that of a byte ("|i1"). Empty if
  /// NumPy has no such numbers.
  std::string_view npy_descr;
  bool spans_rows;  ///< a block may have the elements of two rows
  /// Bits per element if elements are packed, the first in the lowest bits of a byte, and a row may begin inside a byte
  /// (ONNX, TFLite, Core ML); the size is rounded up to bytes. Else 0.
  uint32_t packed_bits = 0;
  ByteOrder order = ByteOrder::little;
  uint32_t low_bits = 0;  ///< the bits of its byte that an integer has, if not all; else 0
};

/// The row named `name`; null if there is none.
const DType* dtype_named(std::string_view name);

/// The row of the same type and name with big-endian values: only `npy_descr` (">f4") and the order differ. For a type
/// of single bytes this is the type itself. dtype_named never returns such a row.
const DType* big_endian(const DType* dtype);

/// The row of mxfp4 with ByteOrder::pairs. dtype_named never returns it.
const DType* mxfp4_of_pairs();

/// The row named `name` of the types whose elements are packed: 4-, 2- and 1-bit integers, uint3, uint6 and
/// float4_e2m1fn. Null if there is none. dtype_named never returns such a row: its "int4" takes a byte per element.
const DType* packed_dtype_named(std::string_view name);

/// Whether it is a quantised type of ggml.
constexpr bool is_quantised(const DType& dtype) {
  return dtype.block > 1 && !dtype.spans_rows && dtype.packed_bits == 0;
}

/// An unknown type: such a tensor has a size, but no size per element.
extern const DType kUnknownDType;

}  // namespace weightfs
