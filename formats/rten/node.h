// What a node of an RTen graph says: a constant's type and where its bytes lie, and what is wrong with it. Shared by
// the Model and by graph.json, so that both say the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model.h"
#include "formats/rten/header.h"
#include "formats/rten/image.h"

namespace weightfs::rten {

struct ConstantNode;
struct Graph;
struct Node;
enum class OperatorType : uint8_t;

/// A run of bytes of the file.
struct Range {
  uint64_t offset;
  uint64_t size;
};

/// A tensor of the file, as far as its node can be believed.
struct Constant {
  std::string stored_dtype;  ///< "Float32", "unknown(9)"; empty when the node does not say
  const DType* dtype;        ///< &kUnknownDType for the last two
  Shape shape;
  bool external;        ///< in the tensor section, not in the FlatBuffer
  Result<Range> bytes;  ///< in the file; or what is wrong
};

/// Reads a constant by the rules of the reference reader: an offset into the tensor section wins over inline data, and
/// an inline vector's type is its union tag's. Where the reference would wrap or panic, `bytes` is a failure.
Constant read_constant(const ConstantNode& node, const StructureImage& image, const Sections& sections);

/// "MatMul", or "unknown(200)" for one of a later schema.
std::string operator_name(OperatorType type);

/// "constant", "value", "operator", or "unknown(9)".
std::string kind_of(const Node& node);

/// What is wrong with a node that is no constant, in a graph of `node_count`: an unknown kind, operator or kind of
/// attributes, an input that does not come before its operator, a number that is no node's. The first of those, or
/// nothing.
std::optional<std::string> problem_of(const Node& node, uint64_t id, uint64_t node_count);

/// A node for a person: id, name, kind; for a constant dtype, shape, and its place or its "problem"; for a value dtype
/// and shape, where a symbolic dimension is its name; for an operator op. What an operator has beyond that may be long
/// and is not in it.
Map describe(const Node& node, uint64_t id, const StructureImage& image, const Sections& sections);

/// The nodes of a graph; a node's id is its index.
std::vector<const Node*> nodes_of(const Graph& graph);

}  // namespace weightfs::rten
