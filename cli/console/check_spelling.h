// Paths that are written wrong.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace weightfs {

/// Fails with not_found for a source that is a path without a file, if files in its directory have similar names: they
/// are named. Reads at most 1,000 names.
Result<void> check_spelling(const std::vector<std::string>& sources);

}  // namespace weightfs
