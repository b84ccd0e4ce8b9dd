// The check of a file before anything is shown of it: all tables can be read, and sharing does not multiply them.
#pragma once

#include <string>
#include <vector>

#include "formats/tflite/file.h"

namespace weightfs::tflite {

/// The maximum number of tensors of all subgraphs together, activations included.
inline constexpr uint64_t kMaxTensors = 1'000'000;

/// The size of tables, lists and names, counted at each use, may exceed the file's size by this much. Tables may be
/// shared, so a small file can have millions; no writer shares more than a few.
inline constexpr uint64_t kSharedSize = 64 * 1024;

/// Reads all subgraphs, tensors and operators. Fails with corrupt if one of them cannot be read, and with unsupported
/// beyond a limit above. `operators`: the names of the operator codes.
Result<void> check_structure(const File& file, const std::vector<std::string>& operators);

}  // namespace weightfs::tflite
