// Datatypes: what the elements of a dataset and of an attribute are.
#pragma once

#include <string>

#include "formats/dtype.h"
#include "formats/hdf5/fields.h"
#include "formats/model.h"

namespace weightfs::hdf5 {

/// The maximum rank of a dataset and of an array (H5S_MAX_RANK).
inline constexpr uint64_t kMaxRank = 32;

enum class TypeClass : uint8_t {
  integer = 0,
  floating = 1,
  time = 2,
  string = 3,
  bits = 4,
  opaque = 5,
  compound = 6,
  reference = 7,
  enumeration = 8,
  variable = 9,  ///< a sequence or a string of variable length
  array = 10,
  complex = 11,
};

/// How a text of fixed length ends.
enum class Padding : uint8_t { terminated = 0, zeros = 1, spaces = 2 };

/// A datatype.
struct Type {
  TypeClass type_class = TypeClass::opaque;
  uint64_t size = 0;                    ///< of an element in bytes; of an array: all of its values
  uint64_t value_size = 0;              ///< of one value of an array; else `size`
  const DType* dtype = &kUnknownDType;  ///< of the numbers; kUnknownDType if they are none of the table
  uint32_t swap = 0;                    ///< bytes of each value that is big-endian; 0 if they are little-endian
  Shape dimensions;                     ///< of an array: its own, which follow those of the dataset
  bool is_text = false;                 ///< a string of fixed or variable length
  Padding padding = Padding::terminated;
  bool points_elsewhere = false;  ///< elements are addresses in the file: variable length, references
  std::string name;               ///< as HDF5 names it: "H5T_IEEE_F32LE"
};

/// Reads a datatype message. Fails with corrupt if it is invalid, and with unsupported if types are nested too deep.
Result<Type> read_type(Fields& fields);

/// The type of opaque elements with an attribute `dtype` of that text: how Keras stores bfloat16. Null if it is none.
const DType* opaque_dtype(const Type& type, std::string_view attribute);

}  // namespace weightfs::hdf5
