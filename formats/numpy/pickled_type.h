// The element types of arrays in pickles: what unpickling makes of numpy.dtype(…) and its state.
// Reference: arraydescr_setstate in numpy/core/src/multiarray/descriptor.c.
#pragma once

#include <string>
#include <vector>

#include "formats/model.h"
#include "formats/numpy/descr.h"
#include "formats/pickle/pickle.h"

namespace weightfs::numpy {

/// A field of a structure.
struct Field {
  std::string name;
  uint64_t offset;  ///< in an element of the array
  ElementType type;
  std::vector<uint64_t> shape;  ///< of each field; empty if it is one element
};

struct PickledType {
  ElementType type;
  std::vector<Field> fields;  ///< of a structure, the first kMaxFields
};

inline constexpr size_t kMaxFields = 64;

/// Whether the value makes an element type: a call of numpy.dtype, or of a class of numpy.dtypes.
bool is_type(const pickle::Pickle& pickle, pickle::Index value);

/// The sizes in a tuple or a list, or the only one. Fails with corrupt for others, and with unsupported if they are too
/// many.
Result<Shape> pickled_shape(const pickle::Pickle& pickle, pickle::Index value);

/// The size of an array of elements of so many bytes. Fails with corrupt if it is 2^63 or more.
Result<uint64_t> pickled_size(const Shape& shape, uint64_t element);

/// The time for each part of the type is charged to `budget`. Fails with corrupt for other values and if a field is
/// outside of its structure, with unsupported for types that are nested too deep, and as the budget does.
Result<PickledType> pickled_type(const pickle::Pickle& pickle, pickle::Index value, Budget& budget);

/// "numpy.core.multiarray.scalar" of both "numpy.core.multiarray.scalar" and "numpy._core.multiarray.scalar".
std::string numpy_name(std::string_view global);

}  // namespace weightfs::numpy
