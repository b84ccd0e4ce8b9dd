// What `weightfs stats --against` computes: how far the numbers of tensors are from those of a reference.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "numbers/deviation.h"
#include "report/compare/pairs.h"
#include "report/diff/deviations.h"

namespace weightfs::stats {

/// A tensor, and its deviation from the tensor of the same name in the reference.
struct AgainstFigures {
  std::string name;  ///< behind its scope
  TensorView tensor;
  std::optional<TensorView> reference;  ///< nothing if the reference lacks it
  /// Fails with not_found if the reference lacks it, with unsupported for another shape or a type without numbers, and
  /// as reading one of the two fails.
  Result<numbers::Deviation> deviation;
};

/// The deviations of tensors that belong together, equal ones included.
struct AgainstGroups {
  std::vector<compare::LayerDeviation> layers;  ///< in the order of their first tensors
  compare::LayerDeviation total;
};

struct AgainstOptions {
  size_t threads = 1;
  /// Called from any thread with the bytes that were read, those to read, and the name of the tensor.
  std::function<void(uint64_t done, uint64_t total, const std::string& name)> report = {};
};

/// Receives the figures of a tensor. An error ends the computation.
using UseAgainst = std::function<Result<void>(AgainstFigures one)>;

/// Computes them for the tensors of the second model with these indices, and passes them on in this order. Fails as
/// FigureCost::check() does before the first one, with resource when the calling thread is cancelled, and as `use`
/// does.
Result<AgainstGroups> compute_against(const compare::ComparedModels& models, const compare::MatchedTensors& matched,
                                      std::span<const size_t> selected, const AgainstOptions& options,
                                      const UseAgainst& use);

}  // namespace weightfs::stats
