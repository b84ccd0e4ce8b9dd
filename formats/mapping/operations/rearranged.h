// The elements of tensors in another order, without a change of their bytes: each operation on rows is valid for
// quantised blocks, too, because a block never spans rows.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "formats/names/names.h"
#include "formats/tensor_list.h"

namespace weightfs::mapping {

/// Numbers of config.json, or of the keys of a GGUF, that operations need; 0: not stated.
struct Sizes {
  uint64_t heads = 0;       ///< of queries
  uint64_t key_heads = 0;   ///< of keys and values
  uint64_t mla_keys = 0;    ///< rows of a head: qk_nope_head_dim
  uint64_t mla_values = 0;  ///< v_head_dim
  uint64_t linear_key_heads = 0;
  uint64_t linear_value_heads = 0;
  uint64_t linear_key_size = 0;    ///< rows of a head
  uint64_t linear_value_size = 0;  ///<
};

/// A tensor of its own, with the same bytes and no scope.
Tensor copy_of(const TensorView& tensor);

/// The tensor of a GGUF that `op` makes of one of the repository, before its numbers are changed. Its name is that of
/// `tensor`. Fails with unsupported, in a sentence, if the shape does not fit the operation.
Result<Tensor> rearranged(const TensorView& tensor, Op op, const Architecture& architecture, const Sizes& sizes);

/// The reverse: the tensor of the repository. Fails as rearranged() does, and for operations that need several tensors.
Result<Tensor> restored(const TensorView& tensor, Op op, const Architecture& architecture, const Sizes& sizes);

/// Tensors of one shape and type, one after the other, with a dimension for their number in front. Fails with
/// unsupported if they differ.
Result<Tensor> stacked(const std::vector<TensorView>& tensors);

/// Blocks [experts, rows, groups, 16] and scales [experts, rows, groups] of MXFP4 as ggml's type [experts, rows, groups
/// * 32]; `step` 2: every second row from `first` on. Fails with unsupported if the shapes do not fit.
Result<Tensor> mxfp4_of(const TensorView& blocks, const TensorView& scales, uint64_t first, uint64_t step);

}  // namespace weightfs::mapping
