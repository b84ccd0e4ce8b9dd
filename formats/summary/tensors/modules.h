// Groups the tensors of a packed module by their names: `MODULE.qweight`, `MODULE.scales`.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/tensor_list.h"

namespace weightfs::summary {

/// What a tensor is in its module, by the end of its name.
enum class Piece : uint8_t {
  // Weights.
  weight,
  qweight,
  weight_packed,
  blocks,
  hqq_weight,
  exl2_weight,
  exl3_weight,
  codes,
  marlin_weight,  ///< tiles of Marlin: `B`
  sparse_weight,  ///< what a bitmask leaves of the elements
  flat_weight,    ///< `_data`, `qdata`, `packed_weight`, …
  unnamed,        ///< a tensor without such an end: `experts.gate_up_proj`
  // Companions.
  scales,
  scale,
  biases,
  zeros,
  group_index,
  absmax,
  quant_state_nf4,
  quant_state_fp4,
  scb,
  weight_scale,
  weight_scale_2,
  output_scale,     ///< of the weight and the input together: `deq_scale`
  scale_of_weight,  ///< others beside weight_scale
  sparse_meta,      ///< which two of four elements are stored
  bitmask,          ///< which elements are stored
  input_signs,      ///< of QuIP#: one for each input
  output_signs,
  inverse_permutation,
  codebooks,
  other
};

/// Whether a tensor scales the weights of its module.
bool is_scale(Piece piece);

/// A packed module.
class Module {
 public:
  /// A tensor of the module.
  struct Member {
    size_t tensor;
    Piece piece;
  };

  std::string_view name;
  std::vector<Member> members;

  bool has(Piece piece) const { return find(piece) != nullptr; }
  const Member* find(Piece piece) const;
};

/// The modules that have more than a weight, in the order of a hash of their names.
std::vector<Module> find_modules(const TensorList& tensors);

}  // namespace weightfs::summary
