// Finds the role of each tensor.
#pragma once

#include "formats/model.h"
#include "formats/summary/tensors/role_list.h"
#include "formats/summary/tensors/stated.h"

namespace weightfs::summary {

/// `stated`: what files state about the packing.
Roles find_roles(const Model& model, const StatedPacking& stated, const ParseObject& parse);

}  // namespace weightfs::summary
