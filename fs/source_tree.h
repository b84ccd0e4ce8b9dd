// Builds the root tree of a mount from its SOURCE arguments.
#pragma once

#include <string>
#include <vector>

#include "fs/tree.h"
#include "sources/source.h"

namespace weightfs {

/// For one source: its tree. For several: a directory of each name (the second of a name gets `~2`), opened when
/// entered. Fails as find_source() does; for one source also as opening it does, and with unsupported for a directory
/// without models.
Result<TreePtr> open_sources(const std::vector<std::string>& sources, const OpenOptions& options);

}  // namespace weightfs
