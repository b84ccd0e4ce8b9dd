// Reads a node of an RTen graph: a constant's type, its bytes, and its errors. Shared by the Model and by graph.json,
// so that both agree.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/model.h"
#include "formats/rten/header.h"
#include "formats/rten/image.h"

namespace weightfs::rten {

struct ConstantNode;
struct Graph;
struct Node;
enum class OperatorType : uint8_t;

/// A range of the file, in bytes.
struct Range {
  uint64_t offset;
  uint64_t size;
};

/// A constant of the file, validated.
struct Constant {
  std::string stored_dtype;  ///< "Float32", "unknown(9)"; empty if the node has none
  const DType* dtype;        ///< &kUnknownDType for the last two
  Shape shape;
  bool external;        ///< in the tensor section instead of the FlatBuffer
  Result<Range> bytes;  ///< in the file; or the error
};

/// Reads a constant by the rules of the reference reader: an offset into the tensor section wins over inline data, and
/// an inline vector's type is its union tag's. Where the reference would wrap or panic, `bytes` is a failure.
Constant read_constant(const ConstantNode& node, const StructureImage& image, const Sections& sections);

/// "MatMul", or "unknown(200)" for one of a later schema.
std::string operator_name(OperatorType type);

/// "constant", "value", "operator", or "unknown(9)".
std::string kind_of(const Node& node);

/// The first error of a node that is not a constant, in a graph of `node_count`: an unknown kind, operator or kind of
/// attributes, an input that does not precede its operator, an id without a node. Nothing if it is valid.
std::optional<std::string> problem_of(const Node& node, uint64_t id, uint64_t node_count);

/// A readable description of a node: id, name, kind; for a constant dtype, shape, and its place or its "problem"; for a
/// value dtype and shape, where a symbolic dimension is its name; for an operator op. Attributes of operators may be
/// long and are omitted.
Map describe(const Node& node, uint64_t id, const StructureImage& image, const Sections& sections);

/// The nodes of a graph; a node's id is its index.
std::vector<const Node*> nodes_of(const Graph& graph);

}  // namespace weightfs::rten
