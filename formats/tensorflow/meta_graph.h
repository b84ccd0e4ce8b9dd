// Graphs with what is around them: the metadata that frozen graphs and SavedModels share.
#pragma once

#include "formats/tensorflow/graph.h"
#include "formats/tensorflow/signatures.h"

namespace weightfs::tensorflow {

/// Appends "inputs" and "outputs" of a model: those of the signature that programs call, else those of its graphs.
/// `meta_graph`: its facts. Charged to `budget`, and fails as that.
Result<void> add_ends(const Map& meta_graph, GraphReader& graphs, Budget& budget, Map& metadata);

}  // namespace weightfs::tensorflow
