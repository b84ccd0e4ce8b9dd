// Weights of a neural network's layer: WeightParams of NeuralNetwork.proto.
#pragma once

#include <optional>

#include "base/values/value.h"
#include "formats/protobuf/numbers.h"
#include "formats/tensor_list.h"

namespace weightfs::coreml {

/// A WeightParams whose values have not been read. One of the four forms of values should be set.
struct StoredWeights {
  protobuf::Message message;
  protobuf::NumbersLayout floats;
  std::optional<protobuf::Range> halves, raw, int8;
  uint64_t bits = 0;               ///< of a number in `raw`
  protobuf::Message quantization;  ///< absent if it has none

  bool has_values() const { return !floats.absent() || halves || raw || int8; }
};

/// Reads the fields of a WeightParams. Fails as Scanner does.
Result<StoredWeights> read_weights(protobuf::Scanner& scanner, protobuf::Message message);

/// Sets the type of a tensor, its shape if that is as long as its values (`shape` is nothing), and its bytes: a range
/// of the file, or decoded. Packed numbers of less than 8 bits, the first in the highest bits, have an unknown type.
/// Fails with corrupt if there are values of several forms, or not as many as the shape has elements, and as Scanner
/// does.
Result<void> place_weights(const StoredWeights& weights, const std::optional<Shape>& shape, const SourcePtr& file,
                           protobuf::Scanner& scanner, Tensor& tensor);

/// The parameters of quantised weights: bits, and scale and bias, or a lookup table, where these have at most `most`
/// numbers. Fails as Scanner and the budget do.
Result<Map> quantization_of(const StoredWeights& weights, size_t most, protobuf::Scanner& scanner);

}  // namespace weightfs::coreml
