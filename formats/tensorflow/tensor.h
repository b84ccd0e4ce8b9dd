// A TensorProto: its type, shape, and where its values are.
#pragma once

#include <array>

#include "formats/protobuf/numbers.h"
#include "formats/protobuf/strings.h"
#include "formats/tensorflow/fields.h"
#include "formats/tensorflow/shape.h"
#include "formats/tensorflow/types.h"

namespace weightfs::tensorflow {

/// A TensorProto as stored. Its values are not read.
struct StoredTensor {
  protobuf::Message message;
  uint64_t data_type = 0;
  StoredShape shape;
  protobuf::Range content;  ///< tensor_content, which takes precedence over typed fields; empty if there is none
  protobuf::Range float8;
  std::array<protobuf::NumbersLayout, tensor::kFields> numbers;  ///< the typed fields, by their field number
  protobuf::StringsField strings;
};

/// Fails as Scanner does.
Result<StoredTensor> read_tensor(protobuf::Scanner& scanner, protobuf::Message message);

/// The file of a tensor, and what reading it is charged to.
struct TensorFile {
  SourcePtr bytes;
  BudgetPtr budget;
  uint64_t countable = protobuf::kMaxCounted;  ///< see numbers_as_bytes()
};

/// The values of a tensor of this type, which has a dtype, and this shape: a range of the file, or computed on read. Of
/// fewer values than elements the last one is repeated; without any, all are zero (tensor.cc). Fails with corrupt if
/// they do not match the shape, with unsupported beyond kMaxExpanded, and as Scanner and the budget do.
Result<Slice> values_of(const StoredTensor& stored, const ElementType& type, const Shape& shape,
                        protobuf::Scanner& scanner, TensorFile& file);

}  // namespace weightfs::tensorflow
