// The models in a directory of models, such as a store of Ollama, whose models are four levels below.
#pragma once

#include <string>
#include <vector>

#include "fs/tree/forest.h"

namespace weightfs {

/// The paths of the first models below a directory, at most `most`, each with a `/` at its end; `above` precedes them.
/// A directory that cannot be read may be a model. Models in a model are not listed.
std::vector<std::string> models_below(Forest& forest, Ino directory, const std::string& above, size_t most);

}  // namespace weightfs
