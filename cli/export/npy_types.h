// Which tensors NumPy files have as another type.
#pragma once

#include <string>
#include <vector>

#include "formats/model.h"

namespace weightfs::exporting {

/// "4 tensors of bfloat16 and 2 of q4_k are written as float32, 1 of int4 as int8: NumPy has no such types", for those
/// of these tensors that npy/ has as another type. Empty if there are none.
std::string npy_types_sentence(const Model& model, const std::vector<size_t>& tensors);

}  // namespace weightfs::exporting
