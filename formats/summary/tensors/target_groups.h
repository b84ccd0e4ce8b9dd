// Which group of compressed-tensors a module is in, by the names and patterns that a group states as its targets.
#pragma once

#include <string_view>
#include <vector>

#include "formats/summary/tensors/stated.h"

namespace weightfs::summary {

/// The group whose targets name the module: by its name, by the end of its name, by a pattern, or by the class
/// "Linear". Null if there is none, or if a target has a form that is not supported.
const StatedPacking::Group* targeted_group(const std::vector<StatedPacking::Group>& groups, std::string_view module);

}  // namespace weightfs::summary
