// The experts of gpt-oss: MXFP4 with a row for each output, whose weights are computed with a row for each input.
#pragma once

#include "formats/computed/matrix.h"
#include "formats/computed/module_pieces.h"

namespace weightfs::computed {

/// X_blocks [experts, outputs, blocks, 16] and X_scales [experts, outputs, blocks] as X [experts, inputs, outputs], as
/// transformers has them. Fails with unsupported if the tensors have other forms.
Result<MatrixPtr> mxfp4_matrix(ModulePieces& pieces);

}  // namespace weightfs::computed
