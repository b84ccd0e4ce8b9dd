// graph.json: every node of every graph of an RTen file, one line each, so that grep finds an operator.
#pragma once

#include <string>

#include "base/budget.h"
#include "formats/rten_header.h"
#include "formats/rten_image.h"

namespace weightfs::rten {

/// A larger graph.json is refused: the most bytes that are worth counting.
inline constexpr uint64_t kLargestGraphJson = uint64_t{512} << 20;

/// The main graph as JSON: inputs, outputs and captures as ids, then the nodes. An operator's attributes are decoded by
/// the schema, with defaults filled in and enums by name; a subgraph stands in place as such a graph. Fails with
/// unsupported beyond the limit above, and where the budget does not have its size.
Result<std::string> graph_json(const StructureImage& image, const Sections& sections, Budget& budget);

}  // namespace weightfs::rten
