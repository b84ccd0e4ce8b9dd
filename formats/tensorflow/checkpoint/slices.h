// Partitioned variables: a checkpoint has their slices, which are shown as one tensor.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/boxes/boxes.h"
#include "formats/protobuf/scanner.h"
#include "formats/tensor_list.h"

namespace weightfs::tensorflow {

/// A TensorSliceProto: a range of each dimension.
struct TensorSlice {
  struct Extent {
    int64_t start = 0;
    std::optional<int64_t> length;  ///< nothing: the whole dimension
  };
  std::vector<Extent> extents;
};

/// The memory of a slice besides its extents, and of what finds its values, in bytes.
inline constexpr uint64_t kSliceMemory = 512;

/// Fails with unsupported beyond kMaxDimensions, and as Scanner does.
Result<TensorSlice> read_slice(protobuf::Scanner& scanner, const protobuf::Message& message);

/// The key of a slice in a table (saved_tensor_slice_util.cc, ordered_code.cc): it begins with a NUL byte.
std::string slice_key(std::string_view name, const TensorSlice& slice);

/// The box of a slice in a tensor of this shape. Fails with corrupt if it is not inside.
Result<Box> box_of(const TensorSlice& slice, const Shape& shape);

}  // namespace weightfs::tensorflow
