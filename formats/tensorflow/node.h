// A NodeDef: a node of a graph or of a function.
#pragma once

#include <string>

#include "formats/protobuf/scanner.h"

namespace weightfs::tensorflow {

/// The texts that say what a node is.
struct NodeNames {
  std::string name;
  std::string op;  ///< "Const"

  /// Whether they can be those of a node: a name in UTF-8, an operator in visible characters of ASCII.
  bool are_valid() const;
};

/// Fails as Scanner does.
Result<NodeNames> read_node(protobuf::Scanner& scanner, const protobuf::Message& node);

/// The value (AttrValue) of the attribute of this name; absent if there is none. Fails as Scanner does.
Result<protobuf::Message> attribute_of(protobuf::Scanner& scanner, const protobuf::Message& node,
                                       std::string_view name);

/// The name of the node that an input refers to: "x" of "x:1" and of "^x".
std::string_view node_of_input(std::string_view input);

/// The message is a GraphDef, a MetaGraphDef, or neither, by its fields and its first node. Fails as Scanner does.
enum class GraphKind { graph, meta_graph, other };
Result<GraphKind> kind_of_graph(protobuf::Scanner& scanner, const protobuf::Message& message);

}  // namespace weightfs::tensorflow
