// graph.json: every node of every graph of an RTen file, one line each, so that grep finds an operator.
#pragma once

#include <string>

#include "base/budget.h"
#include "formats/rten/header.h"
#include "formats/rten/image.h"

namespace weightfs::rten {

/// The main graph as JSON: inputs, outputs and captures as ids, then the nodes. An operator's attributes are decoded by
/// the schema, with defaults filled in and enums by name; a subgraph stands in place as such a graph. Fails
/// where the budget does not have its size.
Result<std::string> graph_json(const StructureImage& image, const Sections& sections, Budget& budget);

}  // namespace weightfs::rten
