// The object graph of a checkpoint of TensorFlow 2 (trackable_object_graph.proto), which is in a tensor of strings.
#pragma once

#include <string>

#include "base/budget.h"
#include "base/source.h"
#include "formats/tensorflow/checkpoint/strings.h"

namespace weightfs::tensorflow {

/// A JSON object: the key of each variable in the checkpoint, and its full name in the program. `stored`: the tensor as
/// the checkpoint has it. Fails with corrupt, with mismatch if its checksum differs, and as the budget does.
Result<std::string> full_names(const StoredStrings& stored, Budget& budget);

}  // namespace weightfs::tensorflow
