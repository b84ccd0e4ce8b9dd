// NNEF's tensor files (.dat): a header of 128 bytes, and the elements (section 5.2 of the NNEF specification 1.0.5).
#pragma once

#include <string_view>

#include "formats/tensor_list.h"

namespace weightfs::nnef {

inline constexpr uint64_t kHeaderSize = 128;

/// The maximum number of dimensions.
inline constexpr uint64_t kMaxRank = 8;

/// Whether a file begins as a tensor file of a known version does.
bool is_tensor_file(std::string_view head);

/// The tensor of a file, without a name. `head` has its first kHeaderSize bytes, or all of a shorter one. The elements
/// are a range of it; booleans of one bit become bytes. Fails with corrupt if the header is not valid or the size is
/// not that of the shape, and with unsupported for another type.
Result<Tensor> read_tensor_file(std::string_view head, const SourcePtr& file);

}  // namespace weightfs::nnef
