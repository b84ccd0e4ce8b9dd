// The tensors of a model as a short table: blocks that repeat, such as the layers of a transformer or their experts,
// become one row.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/values/value.h"
#include "formats/summary/counts.h"
#include "formats/tensor_list.h"

namespace weightfs {

struct Model;

namespace summary {

/// A row. Numbers are of all members.
struct Block {
  std::string path;                              ///< "model.layers.0…47.self_attn"
  uint64_t members = 1;                          ///< how many blocks are folded into it
  uint64_t tensors = 0;                          ///< parameters, buffers and duplicates, without companions
  uint64_t parameters = 0;                       ///< those that are known
  uint64_t unknown = 0;                          ///< tensors of packed weights whose parameters are not known
  uint64_t bytes = 0;                            ///< with companions, without duplicates
  uint64_t refused = 0;                          ///< tensors that cannot be read
  uint64_t duplicates = 0;                       ///< of the tensors
  std::map<std::string, uint64_t> dtypes;        ///< bytes by type, without companions
  std::map<std::string, uint64_t> members_with;  ///< members that have a tensor of the type
};

/// The lines that JSON has.
inline constexpr size_t kBlocksInJson = 40;

/// The maximum number of nodes in the tree of the components of all names; each takes 80 bytes for a moment.
inline constexpr size_t kMaxNameNodes = 4'000'000;

/// Folds the tensors into at most `lines` rows, at least two, in stored order. `counted` has an element per tensor.
/// If the tree of their names has more than `max_nodes`, they are not folded, and a row is a type.
std::vector<Block> fold_blocks(const TensorList& tensors, std::span<const Counted> counted, size_t lines,
                               size_t max_nodes = kMaxNameNodes);

/// Folds the tensors of a model. The work is charged to its budget; what exceeds that is a table of types. None if
/// `counted` does not have an element per tensor.
std::vector<Block> fold_blocks(const Model& model, std::span<const Counted> counted, size_t lines);

/// The rows under the names of metadata.json: path, members, tensors, parameters, bytes, dtypes.
List to_list(std::span<const Block> blocks);

}  // namespace summary
}  // namespace weightfs
