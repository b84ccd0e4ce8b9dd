// A repository in a picture against its GGUF.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/model.h"
#include "fs/tree/forest.h"

namespace weightfs {

/// The one of two models that is a repository, with the names that its tensors have in the GGUF that it is compared
/// with; null for the other one, and for both if names are compared as they are. Logs which names are compared. Fails
/// as compare::mapped_names() does.
Result<std::pair<ModelPtr, ModelPtr>> mapped_models(const std::vector<std::unique_ptr<Forest>>& forests,
                                                    const std::vector<std::string>& sources);

}  // namespace weightfs
