// The documents of a TFLite file: graph.json, and the quantisation parameters of its constants.
#pragma once

#include <string>

#include "base/budget.h"
#include "formats/tflite/file.h"

namespace weightfs::tflite {

/// Renders all subgraphs as JSON: inputs, outputs, then a line for each tensor and for each operator. Attributes of
/// operators are omitted. Fails if the budget does not cover its size.
Result<std::string> graph_json(const File& file, Budget& budget);

/// Renders a line for each quantised constant: its subgraph, its index and name, and its parameters. Fails as
/// graph_json() does.
Result<std::string> quantization_json(const File& file, Budget& budget);

}  // namespace weightfs::tflite
