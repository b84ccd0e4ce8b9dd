// The tensors of a model as a short table: blocks that repeat, such as the layers of a transformer or their experts,
// become one row.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/summary/counts.h"
#include "formats/tensor_list.h"

namespace weightfs::summary {

/// A row. Numbers are of all members, unless they are named otherwise.
struct Block {
  std::string path;      ///< "model.layers.0…47.self_attn"
  uint64_t members = 1;  ///< how many blocks are folded into it
  uint64_t tensors = 0;  ///< parameters and buffers, without companions
  uint64_t parameters = 0;
  uint64_t bytes = 0;                      ///< with companions
  uint64_t refused = 0;                    ///< tensors that cannot be read
  std::map<std::string, uint64_t> dtypes;  ///< bytes by type, without companions
};

/// Folds the tensors into at most `lines` rows, in stored order. `counted` has an element per tensor.
std::vector<Block> fold_blocks(const TensorList& tensors, std::span<const Counted> counted, size_t lines);

}  // namespace weightfs::summary
