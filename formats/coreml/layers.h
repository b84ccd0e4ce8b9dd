// The layers of neural networks that have weights: NeuralNetwork.proto of coremltools 8.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formats/protobuf/scanner.h"
#include "formats/tensor_list.h"

namespace weightfs::coreml {

/// The parameters of a layer: numbers, lists of numbers, and weights.
class Parameters {
 public:
  /// Both outlive it.
  Parameters(protobuf::Scanner& scanner, const protobuf::Message& message) : scanner_(scanner), message_(message) {}

  /// The number in a field; `otherwise` if it is absent or 0, its default. Fails as Scanner does.
  Result<uint64_t> number(uint32_t field, uint64_t otherwise = 0) const;

  /// The numbers of a repeated field. Fails as Scanner does, and with corrupt if they are no dimensions.
  Result<Shape> list(uint32_t field) const;

 private:
  protobuf::Scanner& scanner_;
  const protobuf::Message& message_;
};

/// A field with weights.
struct WeightField {
  uint32_t number;
  std::string_view name;
  /// The shape by the parameters of the layer; nothing if it is as long as its values.
  Result<std::optional<Shape>> (*shape)(const Parameters& layer);
};

/// The name of the type of a layer, by the number of its field in NeuralNetworkLayer: "convolution", or "layer 999".
std::string layer_name(uint32_t number);

/// The fields with weights in the parameters of a layer; empty if it has none, or has them in messages of its own.
std::span<const WeightField> weight_fields(uint32_t number);

/// The fields of LSTMWeightParams, whose shapes follow from the parameters of the layer around it.
std::span<const WeightField> lstm_fields();

}  // namespace weightfs::coreml
