// The weights that the modules of a quantised repository compute with: a matrix of float32 for each module whose packed
// integers, scales and zero points have a known form. No container stores them: they are computed when they are read.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model.h"

namespace weightfs {

struct ComputedWeight {
  std::string name;              ///< of the module's weight: "model.layers.0.mlp.up_proj.weight"
  std::string_view scope;        ///< of the tensors that it is computed from; belongs to the model
  Shape shape;                   ///< outputs and inputs
  Slice values;                  ///< float32; refused() if they are not known
  std::optional<size_t> stored;  ///< the tensor of this name, whose stored numbers are not scaled
  std::vector<size_t> pieces;    ///< the stored tensors that it is computed from, ascending; also `stored`
};

struct ComputedWeights {
  std::vector<ComputedWeight> weights;
  std::vector<std::string> warnings;  ///< why the weights of modules are not computed
};

/// Whether the names and types of the tensors are those of packed weights. Reads nothing.
bool may_have_computed_weights(const Model& model);

/// The weights of the modules that the quantization_config beside the model describes: GPTQ, AWQ, compressed-tensors,
/// fp8, MXFP4 of gpt-oss, FP8 and NVFP4 of ModelOpt. Reads small JSON files, and of a compressed-tensors module its
/// weight_shape. A module that contradicts the configuration has a warning. Fails as Budget::charge does.
Result<ComputedWeights> computed_weights(const Model& model);

/// What becomes of the tensors that a weight is computed from.
enum class Pieces { kept, left_out };

/// The model with these weights of it: each in the place of its stored tensor, or behind all tensors. It has the parts
/// of `model` that describe its tensors, and keeps it. The model itself if there are no weights. Fails as
/// Budget::charge does.
Result<ModelPtr> with_computed(const ModelPtr& model, std::span<const ComputedWeight> weights, Pieces pieces);

}  // namespace weightfs
