// The names of a node of an ONNX graph.
#pragma once

#include <string>

#include "formats/protobuf/scanner.h"

namespace weightfs::onnx {

/// The names of a NodeProto.
struct NodeNames {
  std::string name;
  std::string first_output;
  std::string op_type;
  std::string domain;

  /// Whether this is the standard operator Constant.
  bool is_constant() const;

  /// A name for what belongs to the node: its own, or its first output.
  const std::string& label() const { return name.empty() ? first_output : name; }
};

/// Reads the names of a node, without its attributes. Fails as Scanner does.
Result<NodeNames> read_node(protobuf::Scanner& scanner, const protobuf::Message& node);

}  // namespace weightfs::onnx
