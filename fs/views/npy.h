// The .npy views of a tensor: a NumPy header, then the numbers of the tensor: its bytes, if NumPy has its type.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/model.h"

namespace weightfs::views {

/// The name of the type of the array in the .npy view: that of the tensor if NumPy has it, int8 or uint8 for smaller
/// integers, float32 for all other real numbers. Empty if there is no view: if the tensor was refused, if its elements
/// are not numbers, or if it has more than 32 dimensions, the maximum of NumPy.
std::string_view npy_type(const TensorView& tensor);

/// Whether `tensor` has a .npy view.
inline bool has_npy(const TensorView& tensor) { return !npy_type(tensor).empty(); }

/// Whether the array of the .npy view has the bytes of the tensor as they are stored.
bool has_stored_npy(const TensorView& tensor);

/// Whether `tensor` has a .npy view as float32: its numbers can be converted, and it has at most 32 dimensions.
bool has_float32_npy(const TensorView& tensor);

/// The header of an array of `type`, a type of NumPy, in the shape of the tensor, which has at most 32 dimensions.
std::string converted_npy_header(const TensorView& tensor, const DType& type);

/// Whether a string tensor has one, by its index in the model.
bool has_string_npy(const Model& model, size_t tensor);

/// The .npy header (NumPy format 1.0) for `tensor`; a multiple of 64 bytes. The tensor must have has_npy().
std::string npy_header(const TensorView& tensor);

/// The .npy file of a string tensor: an array of this shape with NumPy's unicode strings (`<U` and the length of the
/// longest string in characters), rendered when read. The shape must have `texts->size()` elements. Fails with
/// unsupported if it would be larger than kMaxStringArrayBytes, as with one long string among many short ones.
Result<SourcePtr> string_npy(ShapeView shape, std::shared_ptr<const std::vector<std::string>> texts);

/// The maximum size of a string array in bytes.
inline constexpr uint64_t kMaxStringArrayBytes = uint64_t{256} << 20;

}  // namespace weightfs::views
