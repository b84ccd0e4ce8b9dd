// config.json of transformers for a GGUF: the keys of formats/mapping/config backwards.
#pragma once

#include <string>

#include "base/result.h"
#include "formats/model.h"

namespace weightfs::mapping {

/// The fields are those that the keys and the tensors have: what no GGUF states is absent, and has the default of the
/// class. Reads the factors of rotary embeddings where tensors have them. Fails with unsupported, in a sentence, if the
/// architecture is not known or a key that the class needs is missing, and as Budget::charge and
/// reading do. The text stays charged.
Result<std::string> hub_config(const Model& gguf, Budget& budget);

/// Fails as hub_config() does, without reading a tensor.
Result<void> check_hub_config(const Model& gguf);

}  // namespace weightfs::mapping
