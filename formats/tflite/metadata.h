// The metadata of a TFLite file: what its graphs take and return, its operators, its signatures, its named buffers.
#pragma once

#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/tflite/file.h"

namespace weightfs::tflite {

/// Adds the metadata, the common fields, and a part for each named buffer. `operators`: the names of the operator
/// codes. Fails as reading the tables and `budget` do.
Result<void> add_metadata(Model& model, const File& file, const std::vector<std::string>& operators, Budget& budget,
                          Warnings& warnings);

}  // namespace weightfs::tflite
