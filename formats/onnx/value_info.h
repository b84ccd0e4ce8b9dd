// Inputs and outputs of a graph: ValueInfoProto.
#pragma once

#include "base/budget.h"
#include "base/values/value.h"
#include "formats/protobuf/scanner.h"

namespace weightfs::onnx {

/// An input or output: its name, and its dtype and shape, where a symbolic dimension is its name and an unknown one
/// null; of a type that is not a tensor, the kind. Its values are charged. Fails as Scanner and the budget do.
Result<Map> describe_value(protobuf::Scanner& scanner, const protobuf::Message& value, Charges& charges);

}  // namespace weightfs::onnx
