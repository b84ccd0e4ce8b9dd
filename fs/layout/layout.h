// The directory tree of a model, the same for every format (semantics 1).
#pragma once

#include <string>

#include "fs/layout/model_files.h"
#include "fs/tree/tree.h"

namespace weightfs {

/// The tree of a model: metadata.json, metadata.toml, tensors.json, tensors/, npy/, float32/, views/, files/, the
/// model's documents, and warnings.txt if there are warnings. Texts are rendered and views are laid out on first use.
/// `source` is the SOURCE in metadata; `modified` is the time of the container. `origin` is null if nothing replaces
/// it.
TreePtr lay_out(ModelPtr model, const std::string& source, Time modified, const ModelFileOptions& options = {},
                std::shared_ptr<const Origin> origin = nullptr);

}  // namespace weightfs
