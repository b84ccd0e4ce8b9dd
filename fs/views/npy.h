// The .npy views of a tensor: a NumPy header, then the bytes of the tensor, or its numbers as float32.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/model.h"

namespace weightfs::views {

/// Whether `tensor` has a .npy view: of its bytes, or of float32 numbers if its type is quantised. Not if it was
/// refused, if NumPy does not have its type, or if it has more than 32 dimensions, the maximum of NumPy.
bool has_npy(const TensorView& tensor);

/// Whether `tensor` has a .npy view as float32: not if it was refused, if its elements are not real numbers, if it has
/// more than 32 dimensions, or if the file would be larger than kMaxFloat32Elements permits.
bool has_float32_npy(const TensorView& tensor);

/// The header of the .npy view as float32. The tensor must have has_float32_npy().
std::string float32_npy_header(const TensorView& tensor);

/// The maximum number of elements of a .npy view as float32; file sizes have 63 bits.
inline constexpr uint64_t kMaxFloat32Elements = uint64_t{1} << 60;

/// Whether a string tensor has one, by its index in the model.
bool has_string_npy(const Model& model, size_t tensor);

/// The .npy header (NumPy format 1.0) for `tensor`; a multiple of 64 bytes.
/// Sub-byte types become uint8, with the last dimension in bytes, or with one dimension if rows share a byte; packed
/// types have one byte per element, quantised types are float32. The tensor must have has_npy().
std::string npy_header(const TensorView& tensor);

/// The .npy file of a string tensor: an array of this shape with NumPy's unicode strings (`<U` and the length of the
/// longest string in characters), rendered when read. The shape must have `texts->size()` elements. Fails with
/// unsupported if it would be larger than kMaxStringArrayBytes, as with one long string among many short ones.
Result<SourcePtr> string_npy(ShapeView shape, std::shared_ptr<const std::vector<std::string>> texts);

/// The maximum size of a string array in bytes.
inline constexpr uint64_t kMaxStringArrayBytes = uint64_t{256} << 20;

}  // namespace weightfs::views
