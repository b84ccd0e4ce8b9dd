// The texts that describe a model: metadata.json, metadata.toml, tensors.json, warnings.txt.
#pragma once

#include <string>
#include <vector>

#include "base/values/value.h"
#include "fs/tree.h"

namespace weightfs {

/// What metadata.json and metadata.toml say: format, version, source, the common fields, counts per dtype, and every
/// container-specific field under "metadata". `source` is what was mounted, as the user would name it.
Map metadata_of(const Model& model, const std::string& source);

/// Where each of the model's parts is under files/, in their order: its path made safe as tensor names are.
std::vector<std::string> part_paths(const Model& model);

/// The directories that the model names itself and no part lies in yet, made safe in the same way; without those that
/// clash with a part's path.
std::vector<std::string> directory_paths(const Model& model, const std::vector<std::string>& part_paths);

/// How many bytes the container has as it is stored.
uint64_t file_bytes(const Model& model);

/// tensors.json: {"tensors": [...]}, a line per tensor, in container order. `tensors` is the tree that shows them.
/// Its lines are made as they are read: a million tensors cost a few bytes per thousand. Fails as Budget::charge does.
Result<SourcePtr> tensor_index(TreePtr tensors);

/// metadata.json, metadata.toml, and warnings.txt: one line per warning; control characters are escaped. Charged to the
/// model's budget as long as the bytes are there; fail as Budget::charge does.
Result<SourcePtr> metadata_json(const Model& model, const std::string& source);
Result<SourcePtr> metadata_toml(const Model& model, const std::string& source);
Result<SourcePtr> warnings_text(const Model& model);

/// A shape as tensors.json has it: [2,3].
std::string shape_text(const Shape& shape);

/// The type as users read it: the DType's name, or the container's own spelling where the type is unknown.
std::string_view dtype_text(const Tensor& tensor);

}  // namespace weightfs
