// Files of a source by the names that people type: a tensor without the directory that its file is in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/format.h"
#include "fs/tree/forest.h"

namespace weightfs {

/// A path typed by the user, and what its error message needs.
struct TypedPath {
  std::string command;  ///< "cat"
  std::string source;   ///< as typed
  std::string path;
};

/// Resolves `typed.path` in the forest of its source. If there is no such file, it is the name of a tensor: of the
/// model, else of the only one of the models below that has it. Fails with not_found; if several models have
/// the tensor, the message has the command for each. If a part of the model could not be read that has the tensor, or
/// may have it, it fails with the reason of that part.
Result<Ino> resolve_typed(Forest& forest, const TypedPath& typed, Forest::FinalLink final_link);

/// The tensors that a command needs (OpenOptions::needed_tensors) to resolve these paths in one model: all if one of
/// them is neither in files/ nor that of a tensor with the same name.
NeededTensors tensors_needed_for(const std::vector<std::string>& paths);

/// Why the bytes of this file of a tensor cannot be read, if the tensor was refused.
std::optional<Error> error_of_refused(const Forest& forest, Ino ino);

}  // namespace weightfs
