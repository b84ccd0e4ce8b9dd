// The constants of a TFLite file as tensors of a Model.
#pragma once

#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/tflite/file.h"

namespace weightfs::tflite {

/// Adds a tensor for each entry with bytes, in the order of subgraphs. Entries that break a rule become refused
/// tensors, with a warning. Fails as reading the tables and the budget do.
Result<void> add_tensors(Model& model, const File& file, const Container& container, Warnings& warnings);

}  // namespace weightfs::tflite
