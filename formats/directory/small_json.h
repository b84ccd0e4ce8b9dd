// The small JSON files of a directory that say what its model is. They are hostile: a file that is too large or not
// valid is as one that is missing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"

namespace weightfs::directory {

/// The value of a JSON file at a path below the folder; nothing if it is missing or not valid. Fails with errors that
/// are not about the bytes.
Result<std::optional<Value>> read_small_json(const Folder& folder, std::string_view path, Budget& budget);

/// Whether config.json is that of a model: it has one of the fields that transformers, diffusers and others write.
/// False if it is missing or not valid. Fails with errors that are not about the bytes.
Result<bool> is_model_config(const Folder& folder, std::string_view path, Budget& budget);

/// Whether a config.json that was read is that of a model.
bool is_model_config(const Map& config);

/// A line of model_index.json that names the class of a part.
struct NamedComponent {
  std::string name;
  std::string class_name;
  bool has_weights = false;  ///< false for tokenizers, schedulers and processors, by their class
};

/// The parts of a pipeline, by model_index.json; nothing if that is not one of diffusers.
std::optional<std::vector<NamedComponent>> components_in(const Value& model_index);

/// A line of modules.json.
struct ModuleDirectory {
  std::string path;        ///< "" is the directory itself
  bool has_files = false;  ///< whether every module of its type has a file there: Normalize, for one, has none
};

/// The directories in modules.json of sentence-transformers, in its order. Nothing if that is not one.
std::optional<std::vector<ModuleDirectory>> module_directories_in(const Value& modules);

}  // namespace weightfs::directory
