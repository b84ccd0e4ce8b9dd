// Quantised weights that a framework tells by other means than names and shapes: PyTorch by the type of its tensors,
// Keras by the configuration of its layers.
#pragma once

#include <vector>

#include "formats/model.h"
#include "formats/summary/tensors/role_list.h"

namespace weightfs::summary {

/// Sets the roles of these tensors and of their scales, and marks them in `is_counted`.
void count_quantised_tensors(const Model& model, Roles& roles, std::vector<bool>& is_counted);

}  // namespace weightfs::summary
