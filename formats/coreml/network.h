// Neural networks of Core ML, the form of models before programs: the weights of their layers.
#pragma once

#include <map>
#include <string>

#include "formats/code/list.h"
#include "formats/common/warnings.h"
#include "formats/coreml/layers.h"
#include "formats/coreml/weights.h"
#include "formats/format.h"
#include "formats/string_pool.h"

namespace weightfs::coreml {

/// Adds the tensors of networks to a model.
class NetworkReader {
 public:
  /// All outlive this object.
  NetworkReader(const Container& container, const SourcePtr& file, protobuf::Scanner& scanner, Model& out)
      : container_(container), file_(file), scanner_(scanner), out_(out), scopes_(out.string_pool) {}

  /// Adds the tensors of a NeuralNetwork, a classifier or a regressor: `scope` is the prefix of their paths. Fails as
  /// Scanner and the budget do.
  Result<void> network(const protobuf::Message& network, const std::string& scope);

  /// Adds the counts of layers, the labels of classes and the parameters of quantised weights to the metadata, custom
  /// layers to the common field `code`, and the warnings to `warnings`.
  void finish(Warnings& warnings);

 private:
  // Where a tensor is: the name of its layer, and its scope, which is one of the string pool.
  struct Place {
    std::string layer;
    std::string_view scope;
  };

  Result<void> layer(const protobuf::Message& layer, const std::string& scope);
  Result<void> parameters(uint32_t number, const protobuf::Message& message, const Place& place);
  Result<void> custom(const protobuf::Message& message, const Place& place);
  Result<void> activation(const protobuf::Message& message, const Place& place);
  Result<void> lstm(const protobuf::Message& message, bool is_bidirectional, const Place& place);
  Result<void> inner(const protobuf::Message& message, uint32_t field, const std::string& scope, std::string_view name);
  Result<void> fields(const protobuf::Message& message, std::span<const WeightField> weights, const Parameters& layer,
                      const Place& place);
  Result<void> add(protobuf::Message message, std::string name, const Result<std::optional<Shape>>& shape,
                   std::string_view scope);
  Result<void> labels(const protobuf::Message& message, uint32_t tag);

  const Container& container_;
  const SourcePtr& file_;
  protobuf::Scanner& scanner_;
  Model& out_;
  StringPool scopes_;
  Warnings warnings_;
  CodeList code_;
  std::map<std::string, uint64_t> operators_;
  List quantization_, labels_;
  uint64_t labels_count_ = 0;
  size_t scales_left_ = 65'536;  // numbers of scales that are shown; of all tensors together
};

}  // namespace weightfs::coreml
