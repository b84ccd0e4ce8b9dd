// graph.json: all nodes of all graphs of an ONNX model, one per line, so that grep finds an operator.
#pragma once

#include <string>

#include "base/budget.h"
#include "base/source.h"
#include "formats/protobuf/scanner.h"

namespace weightfs::onnx {

/// Renders the main graph, given as `graph`, and the functions of `model` as JSON: inputs, outputs, then the nodes.
/// Attributes have their values; tensors only name, dtype and shape; a subgraph is rendered in place. Fails if the
/// budget does not cover its size, and as Scanner does.
Result<std::string> graph_json(const Source& file, const protobuf::Message& model, const protobuf::Message& graph,
                               Budget& budget);

}  // namespace weightfs::onnx
