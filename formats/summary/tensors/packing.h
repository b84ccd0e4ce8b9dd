// Packed weights: which tensors belong together, and how many elements a packed tensor has.
#pragma once

#include "formats/model.h"
#include "formats/summary/tensors/role_list.h"
#include "formats/summary/tensors/stated.h"

namespace weightfs::summary {

/// Sets role and elements of the tensors of packed modules. A module is packed if its companions exist; the
/// configuration only decides what shapes leave open. `roles` has the other tensors' values already.
void count_packed(const Model& model, const StatedPacking& stated, const ParseObject& parse, Roles& roles);

}  // namespace weightfs::summary
