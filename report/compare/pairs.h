// Which tensors of two models are compared with each other.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "formats/model.h"
#include "report/compare/names.h"

namespace weightfs::compare {

/// The places of a tensor in the lists of two models.
struct TensorPair {
  size_t a;
  size_t b;
};

/// The tensors of two models by their scopes and names.
struct MatchedTensors {
  std::vector<TensorPair> pairs;  ///< in the order of the first model
  std::vector<size_t> missing;    ///< only in the first model
  std::vector<size_t> added;      ///< only in the second
};

/// Tensors that have the same name and scope; of those with the same name in one model, the first with the first. Fails
/// with resource.
Result<MatchedTensors> match_tensors(const Model& a, const Model& b);

/// Two models with the tensors that are compared.
struct ComparedModels {
  ModelPtr a;  ///< computed weights in the place of packed tensors, and the tensors of a repository as a GGUF has them
  ModelPtr b;
  NameMapping names;
};

/// Fails as mapped_names() and with_common_weights() do.
Result<ComparedModels> comparable_models(const ModelPtr& a, const ModelPtr& b, NameMatching names);

}  // namespace weightfs::compare
