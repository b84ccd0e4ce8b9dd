// Checkpoints: a table of the tensors. Since TensorFlow 0.12 their bytes are in files beside it (version 2), before
// that in the table (version 1).
#pragma once

#include <string>

#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/tensorflow/checkpoint/files.h"

namespace weightfs::tensorflow {

/// A checkpoint as it was read into a model.
struct CheckpointFacts {
  std::string version;  ///< "V1" or "V2"
  Map metadata;         ///< about the files
};

/// Adds the tensors of the checkpoint with this table to `out`, and to its parts the files with their bytes. A tensor
/// that is described wrongly, or whose file is missing, is refused. Fails with corrupt if the table is invalid.
Result<CheckpointFacts> read_checkpoint(const Container& table, const CheckpointFiles& files, Model& out,
                                        Warnings& warnings);

}  // namespace weightfs::tensorflow
