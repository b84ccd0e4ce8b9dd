// Finds the role of each tensor.
#pragma once

#include "formats/model.h"
#include "formats/summary/tensors/packing.h"

namespace weightfs::summary {

/// `config`: config.json, or nothing; `quantisation`: the object in it or beside it that describes the packing.
Roles find_roles(const Model& model, const Fields& config, const Fields& quantisation);

}  // namespace weightfs::summary
