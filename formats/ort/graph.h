// The tensors of an ORT model: initializers and tensors in attributes, of the main graph and its subgraphs.
#pragma once

#include <map>
#include <string>

#include "formats/code/list.h"
#include "formats/common/warnings.h"
#include "formats/flatbuffer/flatbuffer.h"
#include "formats/format.h"
#include "formats/onnx/packed.h"
#include "formats/string_pool.h"

namespace weightfs::ort {

/// Adds the tensors of graphs to a model, in the order of the file. Slots are those of ort.fbs.
class GraphReader {
 public:
  /// All of them outlive this object.
  GraphReader(const Container& container, flatbuffer::Buffer& buffer, Model& out)
      : container_(container), buffer_(buffer), out_(out) {}

  /// Adds the tensors of a graph and of its subgraphs: `scope` is the prefix of their paths. Fails with corrupt if the
  /// graph is not valid, and as the budget does.
  Result<void> graph(const flatbuffer::Table& graph, const std::string& scope, int depth);

  /// Adds the counts of graphs, nodes, operators and execution providers to the metadata, custom
  /// operators to the common field `code`, and the warnings.
  void finish();

 private:
  using Counts = std::map<std::string, uint64_t>;

  Result<void> node(const flatbuffer::Table& node, const std::string& scope, int depth);
  Result<void> packed_weights(const flatbuffer::Table& node, const std::string& type, const std::string& scope);
  Result<void> attribute(const flatbuffer::Table& attribute, const std::string& node, const std::string& scope,
                         int depth);
  Result<void> sparse(const flatbuffer::Table& sparse, const std::string& scope);
  Result<void> tensor(const flatbuffer::Table& tensor, const std::string& name, const std::string& scope);
  Result<Slice> values(const flatbuffer::Table& stored, const Tensor& tensor);
  Result<Slice> texts(const flatbuffer::Table& stored, const Tensor& tensor);
  Result<void> count(Counts& counts, std::string name);

  const Container& container_;
  flatbuffer::Buffer& buffer_;
  Model& out_;
  Warnings warnings_;
  CodeList code_;
  uint64_t graphs_ = 0;
  uint64_t nodes_ = 0;
  Counts operators_, providers_;
  onnx::PackedWeights packed_;
  StringPool spellings_{out_.string_pool};
};

}  // namespace weightfs::ort
