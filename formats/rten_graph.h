// graph.json: every node of every graph of an RTen file, one line each, so that grep finds an operator.
#pragma once

#include <string>

#include "formats/rten_header.h"
#include "formats/rten_image.h"

namespace weightfs::rten {

/// A larger graph.json is refused: what a small file with much sharing would make.
inline constexpr size_t kLargestGraphJson = size_t{512} << 20;

/// The main graph as JSON: inputs, outputs and captures as ids, then the nodes. An operator's attributes are decoded by
/// the schema, with defaults filled in and enums by name; a subgraph stands in place as such a graph. Fails with
/// unsupported beyond kLargestGraphJson.
Result<std::string> graph_json(const StructureImage& image, const Sections& sections);

}  // namespace weightfs::rten
