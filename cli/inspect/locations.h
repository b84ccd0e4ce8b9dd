// Where the tensors of a model are, for programs that read them: their files in the tree, and their bytes on disk.
#pragma once

#include <string>

#include "formats/model.h"
#include "fs/forest.h"

namespace weightfs {

/// Identifies the bytes of a model's tensors: another text when a file of it has changed.
std::string version_of(const Model& model);

/// The members "v", "local_files" and "tensor_list" of a JSON object, as docs/api.md describes them under `index`:
/// without the braces of the object. `path` is that of the model in the tree, "" for the root. Fails as reading
/// tensors.json fails.
Result<std::string> locations_json(Forest& forest, const std::string& path, const Model& model);

}  // namespace weightfs
