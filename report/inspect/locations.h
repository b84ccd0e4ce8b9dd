// Where the tensors of a model are, for programs that read them: their files in the tree, and their bytes on disk.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "formats/model.h"
#include "fs/tree/forest.h"

namespace weightfs {

/// Identifies the bytes of a model's tensors: another text when a file of it has changed.
std::string version_of(const Model& model);

using WriteText = std::function<void(std::string_view text)>;

/// Writes the members "v", "local_files" and "tensor_list" of a JSON object, as docs/api.md describes them under
/// `index`, tensor by tensor: without the braces of the object. `path` is that of the model in the tree, "" for the
/// root. Fails as reading tensors.json and Budget::charge() fail, and with resource when it is cancelled.
Result<void> write_locations(Forest& forest, const std::string& path, const Model& model, const WriteText& write);

}  // namespace weightfs
