// The numbers of a tensor as float32, whatever type they are stored in.
#pragma once

#include "base/source.h"
#include "formats/dtype.h"
#include "formats/tensor_list.h"

namespace weightfs {

/// Whether float32_values() converts elements of this type: real numbers, also quantised ones.
bool has_float32(const DType& dtype);

/// The elements of a tensor converted to float32: in C order, little-endian, four bytes each. A read converts the
/// blocks of its range only. The tensor must have has_float32(*tensor.dtype) and not be refused. Reads fail as reading
/// the tensor fails.
SourcePtr float32_values(const TensorView& tensor);

/// The value of a float16, by its bits. A signalling NaN becomes a quiet one with the same payload.
float half_to_float(uint16_t half);

/// The number of elements of a tensor that was not refused: its size in bytes was computed without overflow.
uint64_t element_count(ShapeView shape);

}  // namespace weightfs
