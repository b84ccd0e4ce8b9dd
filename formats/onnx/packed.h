// The weights that nodes use quantised: how many elements they have is in the attributes of the node, not in the name
// or the shape of the tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model.h"

namespace weightfs::onnx {

/// The integer attributes of a node that say how its weights are packed.
struct PackingAttributes {
  std::optional<uint64_t> rows, columns;  ///< K and N
  std::optional<uint64_t> bits, block_size;
};

/// The maximum number of inputs of such an operator.
inline constexpr size_t kMaxPackedInputs = 18;

/// Whether an operator may have quantised weights among its inputs, or hands on elements of its first input.
bool may_use_packed_weights(std::string_view op_type);

/// Sets an attribute if it is one of these. `name` and `value` are as in the file.
void set_attribute(std::string_view name, uint64_t value, PackingAttributes& out);

/// Collects the uses of weights by nodes. The tensors may follow later.
class PackedWeights {
 public:
  /// A node whose operator may_use_packed_weights().
  struct Node {
    std::string_view op_type;
    std::vector<std::string> inputs;  ///< names
    std::string first_output;
    std::string scope;  ///< of its graph
    PackingAttributes attributes;
  };

  /// A value that has elements of another one, such as the rows that Gather selects.
  struct Step {
    std::string scope, output, input;
  };

  /// Adds a node. Fails as the budget does.
  Result<void> add(Node node, Budget& budget);

  /// Sets packed_weights of the model, which has all tensors.
  void finish(Model& out);

 private:
  struct Use {
    size_t row;  // in the table of operators
    std::vector<std::string> inputs;
    std::string scope;
    PackingAttributes attributes;
  };
  std::vector<Use> uses_;
  std::vector<Step> steps_;
};

}  // namespace weightfs::onnx
