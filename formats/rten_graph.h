// graph.json: every node of every graph of an RTen file, one line each, so that grep finds an operator.
#pragma once

#include <string>

#include "formats/rten_header.h"
#include "formats/rten_image.h"

namespace weightfs::rten {

/// A larger graph.json is refused, and so is one of more than so many times the FlatBuffer and a megabyte: what a small
/// file with much sharing would make.
inline constexpr uint64_t kLargestGraphJson = uint64_t{512} << 20;
inline constexpr uint64_t kMostGraphJsonTimes = 8;

/// The main graph as JSON: inputs, outputs and captures as ids, then the nodes. An operator's attributes are decoded by
/// the schema, with defaults filled in and enums by name; a subgraph stands in place as such a graph. Fails with
/// unsupported beyond the limits above.
Result<std::string> graph_json(const StructureImage& image, const Sections& sections);

}  // namespace weightfs::rten
