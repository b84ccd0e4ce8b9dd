// Where everything goes: the one tree that every model has, whatever its format (semantics 1).
#pragma once

#include <string>

#include "fs/tree.h"

namespace weightfs {

/// The tree of a model: metadata.json, metadata.toml, tensors.json, tensors/, npy/, files/, the model's documents, and
/// warnings.txt where there is something to warn of. Nothing is rendered and no tensor is laid out before it is asked
/// for. `source` is what was mounted, as the user would name it; `modified` the time of the container.
TreePtr lay_out(ModelPtr model, const std::string& source, Time modified);

}  // namespace weightfs
