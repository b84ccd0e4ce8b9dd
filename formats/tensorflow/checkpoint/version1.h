// Checkpoints of version 1, of TensorFlow before 0.12: saved_tensor_slice.proto and tensor_slice_reader.cc.
#pragma once

#include "formats/common/warnings.h"
#include "formats/tensorflow/checkpoint/table.h"

namespace weightfs::tensorflow {

/// Adds the tensors that the first entry of the table lists. Their values are found when they are read. `first`: at
/// that entry. Fails with corrupt, and as the budget does.
Result<void> read_checkpoint_v1(const Container& container, Table table, BlockEntries& first, Model& out,
                                Warnings& warnings);

}  // namespace weightfs::tensorflow
