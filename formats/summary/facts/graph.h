// Inputs, outputs and operators of formats that have a graph.
#pragma once

#include "formats/model.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

/// Whether this is a format of graphs.
bool is_graph_format(const Model& model);

/// Sets inputs, outputs, operators and producer, as far as the metadata has them.
void describe_graph(const Model& model, Summary& out);

}  // namespace weightfs::summary
