// The keys of a GGUF that describe a model: general.* and those with the prefix of its architecture.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "formats/mapping/keys.h"
#include "formats/mapping/parameter_count.h"
#include "formats/mapping/repository.h"

namespace weightfs::mapping {

/// Adds general.architecture to general.tags and languages, by the model card and the name of the repository.
/// `parameters` has all tensors that the GGUF will have: the size is stated by them, and a size in the name is held
/// against them.
void add_general(Repository& repository, const ParameterCount& parameters, Keys& keys);

/// Adds the keys by config.json, general.file_type (llama_ftype) among them, to general.quantization_version, in the
/// converter's order; phi3's rope.scaling.attn_factor stands before general.type and is added by add_general(). Fails
/// with unsupported, in a sentence, if a field that llama.cpp needs is missing or has an impossible value.
Result<void> add_hyperparameters(Repository& repository, uint32_t file_type, Keys& keys);

}  // namespace weightfs::mapping
