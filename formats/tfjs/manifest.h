// The model.json of TensorFlow.js: the manifest of its weights, and what it says about the model. The topology, which
// may have 50 MB, is only counted.
#pragma once

#include <map>
#include <string>

#include "base/budget.h"
#include "base/values/value.h"
#include "formats/code/list.h"
#include "formats/common/warnings.h"

namespace weightfs::tfjs {

/// What is read of a model.json.
struct ModelJson {
  Value manifest;  ///< weightsManifest; null if there is none
  Map facts;       ///< the other keys but modelTopology: format, generatedBy, convertedBy, signature, …
  std::map<std::string, uint64_t> operators;  ///< of a graph, or the classes of layers
  CodeList code;                              ///< layers of classes that Keras does not have
};

/// The maximum size of a model.json, in bytes.
inline constexpr uint64_t kMaxModelJson = 100'000'000;

/// Reads a model.json, or the weights_manifest.json of old models, which is the manifest alone. Facts of too many
/// values are a warning. Fails as read_json and the budget do, and with unsupported if it is another JSON text or too
/// long.
Result<ModelJson> read_model_json(const Source& json, Budget& budget, Warnings& warnings);

}  // namespace weightfs::tfjs
