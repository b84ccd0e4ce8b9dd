// The one model that a forest has, whole.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "formats/model.h"
#include "fs/tree/forest.h"

namespace weightfs {

/// The model with all lazy parts read, which may download them.
Result<ModelPtr> with_lazy_parts(const ModelPtr& model);

/// The error for a directory of models where one is needed; it names the first of them.
Error several_models(const std::string& source, const std::vector<std::string>& names);

/// The model that a source is, or the only one in a directory of models, with all lazy parts.
struct SingleModel {
  ModelPtr model;
  std::string path;  ///< in the forest: empty, or with a `/` at its end
};
/// Fails with unsupported if there are several models.
Result<SingleModel> single_model(Forest& forest, const std::string& source);

}  // namespace weightfs
