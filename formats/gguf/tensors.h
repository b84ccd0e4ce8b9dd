// Where the tensors of a GGUF file lie: offsets and types become ranges of its bytes, each checked to be inside.
#pragma once

#include "formats/gguf/file.h"

namespace weightfs::gguf {

/// Moves the tensors of `file` to the end of `model.tensors`, in the order of the list, as slices of `bytes`. A tensor
/// whose range cannot be right stays with a refused slice. Everything that ggml would object to is added to
/// `file.warnings`. Returns the offset where the tensors' section begins.
uint64_t place_tensors(File& file, const SourcePtr& bytes, Model& model);

}  // namespace weightfs::gguf
