// graph.json: all nodes of a graph and of its functions, one per line, so that grep finds an operator.
#pragma once

#include "formats/model.h"
#include "formats/protobuf/scanner.h"

namespace weightfs::tensorflow {

/// Adds the document `path` with a GraphDef in `file` to a model. It is rendered when it is read: attributes have their
/// values, tensors only dtype and shape; of an invalid graph it has the problem. Fails then as the budget does.
void add_graph_json(Model& model, std::string path, const SourcePtr& file, const protobuf::Message& graph,
                    const BudgetPtr& budget);

}  // namespace weightfs::tensorflow
