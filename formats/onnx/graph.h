// Finds the tensors of a model: initializers and tensors in attributes, of the main graph, its subgraphs, functions and
// training graphs.
#pragma once

#include <map>
#include <set>
#include <string>

#include "formats/onnx/external.h"
#include "formats/onnx/node.h"
#include "formats/onnx/packed.h"
#include "formats/onnx/tensor.h"
#include "formats/string_pool.h"

namespace weightfs::onnx {

/// Adds the tensors of graphs to a model, in the order of the file.
class GraphReader {
 public:
  /// The container and the model outlive this object.
  GraphReader(const Container& container, protobuf::Scanner& scanner, Model& out)
      : container_(container), scanner_(scanner), out_(out), files_(container) {}

  /// Adds the tensors of a GraphProto, or of one of its subgraphs: `scope` is the prefix of their paths. Fails as
  /// Scanner and the budget do.
  Result<void> graph(const protobuf::Message& graph, const std::string& scope);

  /// Adds a FunctionProto, and a TrainingInfoProto.
  Result<void> function(const protobuf::Message& function);
  Result<void> training(const protobuf::Message& training, uint64_t index);

  /// Adds the counts of graphs and operators to the metadata, the external files to the parts, and the warnings.
  void finish();

 private:
  // Where an attribute is.
  struct AttributeContext {
    const NodeNames& node;
    const std::string& scope;
    std::string name;  // of the attribute
  };

  static std::string attribute_name(const AttributeContext& context);
  Result<void> nodes_and_tensors(const protobuf::Message& graph, const std::string& scope);
  Result<void> check_value(const protobuf::Message& graph, const protobuf::Field& field);
  Result<void> node(const protobuf::Message& node, const std::string& scope);
  Result<void> attribute(const protobuf::Message& attribute, const NodeNames& node, const std::string& scope);
  Result<void> attribute_field(const protobuf::Message& attribute, const protobuf::Field& field,
                               const AttributeContext& context, uint64_t index);
  Result<void> subgraph(const protobuf::Message& graph, const AttributeContext& context, const std::string& suffix);
  Result<void> attribute_tensor(protobuf::Message message, const AttributeContext& context, const std::string& suffix);
  Result<void> constant_value(const protobuf::Message& attribute, const AttributeContext& context);
  Result<void> constant_numbers(const protobuf::Message& attribute, const AttributeContext& context);
  Result<void> constant_strings(const protobuf::Message& attribute, const AttributeContext& context);
  Result<void> sparse(const protobuf::Message& sparse, const std::string& name, const std::string& scope);
  Result<void> count_operator(const NodeNames& node);
  Result<void> packed_weights(const protobuf::Message& node, const NodeNames& names, const std::string& scope);

  Result<void> initializer(protobuf::Message message, const std::string& scope);
  Result<void> tensor(StoredTensor stored, const std::string& scope);
  Result<void> values(const StoredTensor& stored, Tensor& tensor);
  Result<void> add(Tensor tensor);
  void refuse(const Tensor& tensor, const Error& error);

  const Container& container_;
  protobuf::Scanner& scanner_;
  Model& out_;
  ExternalFiles files_;
  Warnings warnings_;
  uint64_t countable_ = protobuf::kMaxCounted;
  uint64_t graphs_ = 0;
  uint64_t nodes_ = 0;
  std::map<std::string, uint64_t> operators_;
  std::set<std::string> custom_;     // operators of other domains than those of ONNX, as "domain.Op"
  std::set<std::string> functions_;  // of the model, in the same form
  PackedWeights packed_;
  List sparse_;  // dimensions of the sparse tensors
  StringPool spellings_{out_.string_pool};
};

}  // namespace weightfs::onnx
