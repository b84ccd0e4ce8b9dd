// Tensors of a repository that a GGUF has in several tensors.
#pragma once

#include "base/result.h"
#include "formats/mapping/operations/rearranged.h"
#include "formats/tensor_list.h"

namespace weightfs::mapping {

/// kv_b_proj [heads * (keys + values), rank] of attn_k_b [heads, rank, keys] and attn_v_b [heads, values, rank]: as
/// float32 if they are quantised. Fails with unsupported if the shapes do not fit.
Result<Tensor> joined_mla(const TensorView& keys, const TensorView& values);

/// Numbers [experts, size] of two tensors in turn: [experts, 2 * size]. Fails as above.
Result<Tensor> alternating(const TensorView& even, const TensorView& odd);

/// Weights [experts, outputs, inputs] of two tensors, whose outputs alternate: [experts, inputs, 2 * outputs]; as
/// float32 if they are quantised. Fails as above.
Result<Tensor> alternating_transposed(const TensorView& even, const TensorView& odd);

/// Each matrix transposed; as float32 if it is quantised.
Result<Tensor> transposed_again(const TensorView& tensor);

enum class Mxfp4Part { blocks, scales };

/// Blocks [experts, rows, groups, 16] or scales [experts, rows, groups] of one tensor of MXFP4, or of two whose rows
/// alternate. Fails as above.
Result<Tensor> mxfp4_part(const std::vector<TensorView>& tensors, Mxfp4Part part);

}  // namespace weightfs::mapping
