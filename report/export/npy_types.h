// Which tensors of an export have another type than one could expect.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/model.h"

namespace weightfs::exporting {

/// "4 tensors of bfloat16 and 2 of q4_k are written as float32, 1 of int4 as int8: NumPy has no such types", for those
/// of these tensors that npy/ has as another type. Empty if there are none.
std::string npy_types_sentence(const Model& model, const std::vector<size_t>& tensors);

/// "1 tensor of complex64 is written as stored: not real numbers", for those of these tensors that --dtype does not
/// convert, and that the file has as stored. Empty if there are none.
std::string unconverted_types_sentence(const Model& model, const std::vector<size_t>& tensors,
                                       const std::function<bool(const TensorView& tensor)>& is_stored);

}  // namespace weightfs::exporting
