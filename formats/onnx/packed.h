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
inline constexpr size_t kMaxPackedInputs = 16;

/// Whether an operator has quantised weights among its inputs.
bool has_packed_weights(std::string_view op_type);

/// Sets an attribute if it is one of these. `name` and `value` are as in the file.
void set_attribute(std::string_view name, uint64_t value, PackingAttributes& out);

/// Collects the uses of weights by nodes. The tensors may follow later.
class PackedWeights {
 public:
  /// Adds a node whose operator has_packed_weights(). `inputs` are the names of its inputs; `scope` is that of its
  /// graph. Fails as the budget does.
  Result<void> add(std::string_view op_type, std::vector<std::string> inputs, std::string scope,
                   PackingAttributes attributes, Budget& budget);

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
};

}  // namespace weightfs::onnx
