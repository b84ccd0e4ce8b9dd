// Builds the root tree of a mount from its SOURCE arguments.
#pragma once

#include <string>
#include <vector>

#include "fs/model_files.h"
#include "fs/tree.h"
#include "sources/source.h"

namespace weightfs {

/// For one source: its tree. For several: a directory of each name (the second of a name gets `~2`), opened when
/// entered. Fails as find_source() does; for one source also as opening it does, and with unsupported for a directory
/// without models.
/// `files` is about views/.
Result<TreePtr> open_sources(const std::vector<std::string>& sources, const OpenOptions& options,
                             const ModelFileOptions& files = {});

}  // namespace weightfs
