// What a repository has to agree with before a GGUF of it is made: llama.cpp loads files that contradict it, and
// computes another model.
#pragma once

#include "base/result.h"
#include "formats/mapping/repository.h"
#include "formats/tensor_list.h"

namespace weightfs::mapping {

/// Whether llama.cpp v0.5.0 (src/models/) computes what config.json and `tensors`, those of the GGUF, describe:
/// activations, scales and norms of routers that no key states, tied embeddings, and the shapes of matrices. Fails with
/// unsupported, in a sentence.
Result<void> check_agreement(Repository& repository, const TensorList& tensors);

}  // namespace weightfs::mapping
