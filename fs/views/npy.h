// The .npy view of a tensor: a header that NumPy reads, then the same bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/model.h"

namespace weightfs::views {

/// Whether `tensor` has a .npy view of its bytes: not if it was refused, if its type has none in NumPy, or if it has
/// more than 32 dimensions, which NumPy cannot hold.
bool has_npy(const Tensor& tensor);

/// The same for a tensor of texts, by its place in the model: those have an array made of what they say.
bool has_string_npy(const Model& model, size_t tensor);

/// The .npy header (NumPy format 1.0) for `tensor`; a multiple of 64 bytes.
/// Sub-byte types are shown as bytes of uint8: the last dimension in bytes, or one dimension where rows share a byte.
/// Call it only for a tensor that has_npy().
std::string npy_header(const Tensor& tensor);

/// A whole .npy file of texts: an array of this shape whose elements are NumPy's unicode strings (`<U` and the longest
/// text's length in characters), made as it is read. As many texts as the shape has elements. Fails with unsupported
/// when it would be longer than kLongestStringArray: one long text among many short ones.
Result<SourcePtr> string_npy(const Shape& shape, std::shared_ptr<const std::vector<std::string>> texts);

/// Bytes of the longest array of texts.
inline constexpr uint64_t kLongestStringArray = uint64_t{256} << 20;

}  // namespace weightfs::views
