// The .npy view of a tensor: a header that NumPy reads, then the same bytes.
#pragma once

#include <string>

#include "formats/model.h"

namespace weightfs {

/// Whether `tensor` has a .npy view: not if it was refused, if its type has none in NumPy, or if it has more than 32
/// dimensions, which NumPy cannot hold.
bool has_npy(const Tensor& tensor);

/// The .npy header (NumPy format 1.0) for `tensor`; a multiple of 64 bytes.
/// Sub-byte types are shown as bytes of uint8: the last dimension in bytes, or one dimension where rows share a byte.
/// Call it only for a tensor that has_npy().
std::string npy_header(const Tensor& tensor);

}  // namespace weightfs
