// Renders the texts that describe a model: metadata.json, metadata.toml, tensors.json, warnings.txt.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/values/value.h"
#include "fs/tree/tree.h"

namespace weightfs {

/// The content of metadata.json and metadata.toml: format, version, source, the common fields, counts per dtype, and
/// all container-specific fields under "metadata".
Map metadata_of(const Model& model, const std::string& source);

/// The path of each part below files/, escaped like tensor names, and the index of the part; sorted by path_less. The
/// paths refer to the model where path and name are equal, else to `texts`.
std::vector<NamedPath> part_paths(const Model& model, StringArena& texts);

/// These paths by the index of the part.
std::vector<std::string_view> in_order_of_parts(const std::vector<NamedPath>& part_paths);

/// The directories that the model lists explicitly, escaped in the same way; without those that clash with the path of
/// a part.
std::vector<std::string> directory_paths(const Model& model, const std::vector<NamedPath>& part_paths);

/// The stored size of the container in bytes.
uint64_t file_bytes(const Model& model);

/// tensors.json: {"tensors": [...]}, one line per tensor, in container order. `tensors` is the tree of tensors/. Lines
/// are rendered when read: a tensor costs four bytes. Fails as Budget::charge does.
Result<SourcePtr> tensor_index(TreePtr tensors);

/// metadata.json, metadata.toml, and warnings.txt (one line per warning, control characters escaped; `more` follow
/// those of the model). The text is charged to the model's budget while it exists. Fail as Budget::charge does.
Result<SourcePtr> metadata_json(const Model& model, const std::string& source);
Result<SourcePtr> metadata_toml(const Model& model, const std::string& source);
Result<SourcePtr> warnings_text(const Model& model, std::span<const std::string> more = {});

/// A shape in JSON: [2,3].
std::string shape_text(ShapeView shape);

/// The displayed type: the DType's name, or the container's spelling if the type is unknown.
std::string_view dtype_text(const TensorView& tensor);

}  // namespace weightfs
