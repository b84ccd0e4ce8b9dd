// The computed weights of quantised models (formats/computed_weights.h) in statistics and comparisons.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "formats/computed_weights.h"
#include "report/compare/contents.h"

namespace weightfs::compare {

/// Two models to compare: a weight that both have is computed where the other model stores it, or packs it in another
/// way. The tensors that it is computed from are left out. Weights that both pack in the same way are compared as they
/// are stored. Fails as computed_weights() does.
Result<std::pair<ModelPtr, ModelPtr>> with_common_weights(const ModelPtr& a, const ModelPtr& b);

/// Models with all of their computed weights behind the stored tensors.
class ShownModels {
 public:
  /// Fails as computed_weights() does.
  static Result<ShownModels> of(const std::vector<FoundModel>& models);

  const std::vector<FoundModel>& models() const { return models_; }

  /// The indices in the stored model of the tensors that a tensor is computed from; of a stored one its own.
  std::vector<size_t> stored_tensors(const TensorPlace& place) const;

 private:
  std::vector<FoundModel> models_;
  std::vector<std::map<size_t, std::vector<size_t>>> pieces_;  // of each: of computed weights by their index
};

}  // namespace weightfs::compare
