// Files of a source by the names that people type: a tensor without the directory that its file is in.
#pragma once

#include <string>

#include "fs/forest.h"

namespace weightfs {

/// A path typed by the user, and what its error message needs.
struct TypedPath {
  std::string command;  ///< "cat"
  std::string source;   ///< as typed
  std::string path;
};

/// Resolves `typed.path` in the forest of its source. If there is no such file, it is the name of a tensor: of the
/// model, else of the only one of the models one level below that has it. Fails with not_found; if several models have
/// the tensor, the message has the command for each.
Result<Ino> resolve_typed(Forest& forest, const TypedPath& typed, Forest::FinalLink final_link);

}  // namespace weightfs
