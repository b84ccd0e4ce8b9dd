// What a source has: models, also those in other models, and files. A comparison goes through two of these side by
// side.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/model.h"
#include "fs/tree/forest.h"

namespace weightfs::compare {

/// A file, or a model in a model or in a directory.
struct Item {
  std::string path;                         ///< below the model or directory
  std::function<Result<ModelPtr>()> model;  ///< reads it; null for a file that is no model
  std::optional<Part> file;                 ///< its bytes; nothing for a model of a directory
};

/// A model with what is in it, or a directory of models.
struct Contents {
  ModelPtr model;           ///< with all lazy parts; null for a directory
  std::vector<Item> items;  ///< sorted by path; of two with the same path the first one
};

/// The files of the model that its tensors and metadata do not show, and the models in it. A file with tensors of the
/// model is not an item, nor is the container's own file. Fails as finding the nested models does.
Result<Contents> contents_of(const ModelPtr& model);

/// The contents of the model of a forest; for a directory of models, the models in all its directories, and the other
/// files that it lists. The forest must exist as long as the result.
Result<Contents> contents_of(Forest& forest);

/// A model of a source, and its path there; "" for the source itself.
struct FoundModel {
  std::string path;
  ModelPtr model;
};

/// A tensor of one of several models, by the place of the model and its index there.
struct TensorPlace {
  size_t model;
  size_t index;
};

/// All models of a forest, each before those in it. A container with several names is entered once. `on_error` is
/// called for a model that cannot be read.
Result<std::vector<FoundModel>> models_in(Forest& forest,
                                          const std::function<void(const std::string& path, const Error&)>& on_error);

}  // namespace weightfs::compare
