// The names that tensors have in an export: a GGUF of a repository of the Hub has those of llama.cpp, so that it loads.
#pragma once

#include <string>

#include "formats/mapping/mapping.h"
#include "formats/model.h"
#include "report/export/files.h"

namespace weightfs::exporting {

enum class Names {
  automatic,  ///< in a GGUF of a repository of the Hub those of llama.cpp, else as stored
  gguf,       ///< those of llama.cpp
  hub,        ///< those of transformers
};

/// What is asked for of an output, besides its format.
struct Naming {
  Names names = Names::automatic;
  bool is_q8_0 = false;       ///< matrices are quantised
  bool has_patterns = false;  ///< only some tensors are written
};

/// The model to write: `model`, or its tensors with other names and values. `source` names the repository. If the types
/// are those of `request`, it has them already, and those of `request` become `stored`. Fails with unsupported, with
/// what to do, if the names or the types are not possible; and as mapping::as_gguf() does.
Result<ModelPtr> named_model(const ModelPtr& model, const std::string& source, const Naming& naming, Request& request);

}  // namespace weightfs::exporting
