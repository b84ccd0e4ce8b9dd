// The repositories that a tree has: a model, or a directory whose entries are the published models of its tags, as in a
// store of Ollama.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/model.h"
#include "fs/tree/forest.h"
#include "serve/registry/names.h"

namespace weightfs::distribution {

struct Repository {
  Ino ino = 0;            ///< of its directory
  std::string name = {};  ///< of the model or directory
  ModelPtr model = {};    ///< whole; null: a directory of tags
};

struct TaggedModel {
  std::string tag;
  ModelPtr model;  ///< whole
};

/// Callable from any thread. The forest must outlive it.
class Repositories {
 public:
  /// `source`: that of the server, which names the model at the root.
  Repositories(Forest& forest, const std::string& source) : forest_(forest), source_(name_of_source(source)) {}

  /// The repository of a name: the path of a directory, whose components may be written as component_of() does, and of
  /// files of weights without the ending. "library/" may precede it, and the directory may be below another one, as
  /// those of HOST in a store of Ollama. Fails with not_found, and as reading a model does.
  Result<Repository> find(const std::vector<std::string>& name);

  /// The published models in a directory of tags, by their names there; at most 1,000.
  Result<std::vector<TaggedModel>> tagged(const Repository& directory);

  /// Calls `is_last` with each of these models, until it returns true.
  Result<void> find_tagged(const Repository& directory, const std::function<bool(const TaggedModel&)>& is_last);

  /// The published model of a tag; null if there is none. Enters no other one.
  Result<ModelPtr> tagged(const Repository& directory, const std::string& tag);

  /// The name and the tag of the model at the root; empty if it is a directory.
  const SourceName& source() const { return source_; }

  /// The name of the first repository as a client writes it, or "NAME" if there are several.
  std::string example();

 private:
  using Names = std::vector<std::string>;

  Result<ModelPtr> model_of(const Forest::Listing& listing) const;
  ModelPtr published_in(const Forest::Listing& directory, uint32_t index);
  Result<std::optional<Ino>> child_of(Ino directory, const std::string& name);
  Result<std::optional<Repository>> below(Ino directory, const Names& names);
  Result<std::optional<Repository>> below_hosts(const Names& names);

  Forest& forest_;
  const SourceName source_;
};

}  // namespace weightfs::distribution
