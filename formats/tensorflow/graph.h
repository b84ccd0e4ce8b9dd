// Reads a GraphDef into a Model: its constants, and what its nodes are.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "formats/code/list.h"
#include "formats/common/warnings.h"
#include "formats/string_pool.h"
#include "formats/tensorflow/node.h"
#include "formats/tensorflow/tensor.h"

namespace weightfs::tensorflow {

/// Which constants are tensors of the model.
enum class Constants {
  all,
  large,  ///< those that take kLargeConstant bytes in the file: the others are shapes, axes and such
};
inline constexpr uint64_t kLargeConstant = 4096;

/// Reads graphs of one file into a model. The scanner, the model and the warnings outlive this object.
class GraphReader {
 public:
  GraphReader(const TensorFile& file, protobuf::Scanner& scanner, Model& out, Warnings& warnings)
      : file_(file), scanner_(scanner), out_(out), warnings_(warnings) {}

  /// Adds the constants of a graph and of the functions of its library. Names that an earlier graph has are not added
  /// again; one that this graph has twice is added twice. Fails with corrupt if a node has no name or operator, and as
  /// Scanner and the budget do.
  Result<void> read(const protobuf::Message& graph, Constants constants);

  /// The numbers of nodes, of operators and of functions in all graphs.
  Map facts() const;

  /// The operators that read or write files, call Python, or need a library.
  CodeList take_code() { return std::move(code_); }

  /// Whether the main graphs have variables, whose values are in a checkpoint.
  bool has_variables() const { return has_variables_; }

  /// The placeholders of the main graphs, and the nodes that no other node has as input.
  List inputs() { return std::move(inputs_); }
  Result<List> outputs();

 private:
  Result<void> library(const protobuf::Message& library);
  Result<void> function(const protobuf::Message& function);
  Result<void> node(const protobuf::Message& node, const std::string& function);
  Result<void> main_node(const protobuf::Message& node, const NodeNames& names);
  Result<void> count(const std::string& op);
  Result<void> note_printed(const protobuf::Message& node);
  Result<void> constant(const protobuf::Message& node, std::string name);
  Result<void> placeholder(const protobuf::Message& node, const std::string& name);
  Result<void> values(const StoredTensor& stored, Tensor& tensor);

  TensorFile file_;
  protobuf::Scanner& scanner_;
  Model& out_;
  Warnings& warnings_;
  Constants constants_ = Constants::all;
  std::map<std::string, size_t, std::less<>> names_;  // of constants, with the graph that has them
  std::set<std::string, std::less<>> used_;           // names of nodes that others have as input
  std::vector<std::string> ends_;                     // names of nodes that may be outputs
  std::map<std::string, uint64_t> operators_;
  CodeList code_;
  List inputs_;
  uint64_t nodes_ = 0;
  uint64_t functions_ = 0;
  size_t graphs_ = 0;
  bool has_variables_ = false;
};

}  // namespace weightfs::tensorflow
