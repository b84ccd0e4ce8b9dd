// One TensorProto: its name, shape and type, and where its elements are.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "formats/model.h"
#include "formats/onnx/external.h"
#include "formats/onnx/node.h"
#include "formats/onnx/types.h"
#include "formats/protobuf/numbers.h"
#include "formats/protobuf/strings.h"

namespace weightfs::onnx {

/// A TensorProto as stored. Its values are not read.
struct StoredTensor {
  protobuf::Message message;
  std::string name;
  int32_t data_type = 0;
  Shape shape;
  std::optional<std::string> problem;               ///< why its values are refused
  bool is_external = false;                         ///< then the values in the message are ignored
  ExternalPlace place;                              ///< then
  std::optional<protobuf::Range> raw;               ///< raw_data, which takes precedence over typed fields
  std::array<protobuf::NumbersLayout, 12> numbers;  ///< the typed fields, by their field number
  protobuf::StringsField strings;
};

/// Reads a TensorProto. An error of its shape or its segment is its `problem`. Fails as Scanner does.
Result<StoredTensor> read_tensor(protobuf::Scanner& scanner, protobuf::Message message);

/// The bytes of a tensor in the message, as protobuf::numbers_as_bytes(). Fails with corrupt if they do not match the
/// shape, with not_found if there are none, and as Scanner does.
Result<Slice> inline_bytes(const StoredTensor& tensor, const SourcePtr& file, protobuf::Scanner& scanner,
                           uint64_t& countable);

}  // namespace weightfs::onnx
