// Shapes: TensorShapeProto.
#pragma once

#include <vector>

#include "formats/protobuf/scanner.h"
#include "formats/tensor_list.h"

namespace weightfs::tensorflow {

/// A TensorShapeProto as stored.
struct StoredShape {
  std::vector<int64_t> sizes;  ///< outermost first; -1 if unknown. At most kMaxDimensions of them are kept
  bool has_unknown_rank = false;
  bool is_too_long = false;

  /// The shape of a tensor with values. Fails with corrupt if a dimension is negative or unknown, and with unsupported
  /// beyond kMaxDimensions.
  Result<Shape> known() const;

  /// The sizes that are not negative: for a tensor that is refused.
  Shape shown() const;
};

/// Fails as Scanner does.
Result<StoredShape> read_shape(protobuf::Scanner& scanner, const protobuf::Message& message);

}  // namespace weightfs::tensorflow
