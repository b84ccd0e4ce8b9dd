// The tree of what SOURCE arguments name.
#pragma once

#include <string>
#include <vector>

#include "fs/tree.h"
#include "sources/source.h"

namespace weightfs {

/// One source: its tree is the mount itself. Several: a directory for each, under its own name (the second of one name
/// gets `~2`), opened when it is entered. Fails as find_source() does and, for one source, as opening it does; with
/// unsupported for a directory with nothing to show.
Result<TreePtr> open_sources(const std::vector<std::string>& sources, const OpenOptions& options);

}  // namespace weightfs
