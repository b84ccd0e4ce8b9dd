// Resolves the tensors of a GGUF file: offsets and types become ranges of its bytes, each checked to be inside.
#pragma once

#include "formats/gguf/file.h"

namespace weightfs::gguf {

/// Moves the tensors of `file` to the end of `model.tensors`, in the order of the list, as slices of `bytes`. A tensor
/// with an invalid range gets a refused slice. Everything that ggml would reject is added to `file.warnings`. Returns
/// the offset of the data section.
uint64_t place_tensors(File& file, const SourcePtr& bytes, Model& model);

}  // namespace weightfs::gguf
