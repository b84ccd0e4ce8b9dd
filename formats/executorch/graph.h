// graph.json of a .pte file: the values of each method, and the instructions that the runtime executes.
#pragma once

#include <string>

#include "formats/executorch/file.h"

namespace weightfs::executorch {

/// The tables, lists and texts of methods may take twice as many bytes as the file has, and this many more, counted at
/// each use: tables may be shared, and the name of an operator is written for each call.
inline constexpr uint64_t kSharedSize = uint64_t{64} << 10;

/// Checks that the methods of a program can be rendered. Fails with corrupt if a table, list or text is not inside the
/// file, and with unsupported beyond the limit above.
Result<void> check_methods(const File& file);

/// A JSON text with a line for each value and each instruction. It is charged to `budget`. Fails as reading the file.
Result<std::string> graph_json(const File& file, Budget& budget);

}  // namespace weightfs::executorch
