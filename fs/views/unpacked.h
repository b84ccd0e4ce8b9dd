// Packed elements of 1 to 7 bits as one byte each, for the .npy views of ONNX's and TFLite's int4.
#pragma once

#include <cstdint>

#include "base/source.h"
#include "formats/dtype.h"

namespace weightfs::views {

/// The `elements` elements of a packed type (DType::packed_bits) in `packed`, one byte each. Signed integers are
/// extended to int8; the upper bits of the other types are 0.
SourcePtr unpacked(SourcePtr packed, const DType& dtype, uint64_t elements);

}  // namespace weightfs::views
