// A repository of the Hub of which a GGUF is made: its tensors, config.json, and the other small files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/values/value.h"
#include "formats/model.h"
#include "formats/names/architecture.h"
#include "formats/summary/fields.h"
#include "formats/summary/small_files.h"

namespace weightfs::mapping {

/// Not thread-safe.
class Repository {
 public:
  /// `name` is that of the directory, or of the repository without its owner. Fails with unsupported if config.json is
  /// missing or names a class that llama.cpp has no architecture for, in a sentence that says which; and as
  /// computed_weights() does.
  static Result<std::unique_ptr<Repository>> open(const ModelPtr& model, std::string name);

  /// The model; matrices of float8 with scales are computed.
  const Model& model() const { return *model_; }
  const ModelPtr& model_pointer() const { return model_; }
  const Model& stored() const { return *stored_; }  ///< as its files have it
  const std::string& name() const { return name_; }
  const Architecture& architecture() const { return *architecture_; }
  const std::string& class_name() const { return class_name_; }  ///< of the text model: "LlamaForCausalLM"

  /// The fields of config.json: those of the text model, where it has an object of its own, replace the outer ones.
  summary::Fields config() { return {&config_, "config.json", warnings_}; }
  summary::SmallFiles& files() { return files_; }

  /// A file of the repository; null if there is none. Fails as opening does.
  Result<SourcePtr> file(const std::string& path) { return files_.checked_open(path); }

  /// The object in a JSON file; null if there is none. Fails with corrupt if it is something else, and as file() and
  /// parse_small_json() do.
  Result<const Map*> object(const std::string& path) { return files_.checked_object(path); }

 private:
  Repository(const ModelPtr& model, std::string name)
      : model_(model), stored_(model), name_(std::move(name)), files_(*model) {}
  Result<void> compute_float8();

  ModelPtr model_;
  ModelPtr stored_;
  std::string name_;
  summary::SmallFiles files_;
  Map config_;
  std::string class_name_;
  const Architecture* architecture_ = nullptr;
  std::vector<std::string> warnings_;
};

}  // namespace weightfs::mapping
