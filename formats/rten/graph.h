// graph.json: all nodes of all graphs of an RTen file, one per line, so that grep finds an operator.
#pragma once

#include <string>

#include "base/budget.h"
#include "formats/rten/header.h"
#include "formats/rten/image.h"

namespace weightfs::rten {

/// Renders the main graph as JSON: inputs, outputs and captures as ids, then the nodes. Attributes of an operator are
/// decoded by the schema, with defaults filled in and enums by name; a subgraph is rendered in place. Fails if the
/// budget does not cover its size.
Result<std::string> graph_json(const StructureImage& image, const Sections& sections, Budget& budget);

}  // namespace weightfs::rten
