// The facts in the keys of a GGUF (ggml's docs/gguf.md; llama.cpp's llama-arch.cpp).
#pragma once

#include "formats/summary/fields.h"
#include "formats/summary/summary.h"
#include "formats/summary/tensors/roles.h"

namespace weightfs::summary {

/// Sets what the keys state. `keys` have the names that they have in the file.
void describe_gguf(const Fields& keys, const TensorList& tensors, Summary& out);

/// The name of the type: general.file_type, or a guess from the matrices; nothing without both.
std::optional<Quantisation> gguf_quantisation(const Fields& keys, const TensorList& tensors,
                                              std::string_view file_name);

}  // namespace weightfs::summary
