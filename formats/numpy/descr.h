// The element type of an array: the value of `descr` in a .npy header.
#pragma once

#include <cstdint>
#include <string>

#include "formats/dtype.h"
#include "formats/numpy/literal.h"

namespace weightfs::numpy {

/// An element type.
struct ElementType {
  const DType* dtype = &kUnknownDType;  ///< &kUnknownDType for text, dates, void, structures and long doubles
  uint64_t bytes = 0;                   ///< of an element
  uint32_t swap = 0;         ///< bytes per value whose order is reversed; 0 if `dtype` is little-endian, or unknown
  bool has_objects = false;  ///< elements are, or hold, pickled objects
  std::string text;          ///< the descr as Python writes it: "<f4", "[('x', '<f4'), ('y', '>i2', (2,))]"
};

/// Interprets `descr`: NumPy's type strings and their common aliases, and lists of fields. Fails with corrupt for
/// anything else and if an element is larger than 2^31 - 1 bytes.
Result<ElementType> element_type(const Literal& descr);

}  // namespace weightfs::numpy
