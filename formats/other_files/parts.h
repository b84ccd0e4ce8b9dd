// Files that were split by bytes, because a host limits their size: model.gguf.part1of2, model.gguf-split-a,
// model.gguf.001.
#pragma once

#include <string_view>

#include "base/result.h"

namespace weightfs::other_files {

/// Whether a file has the name of such a part. Only its content shows that it is one.
bool is_named_as_part(std::string_view name);

/// The error for the first part, which begins as the whole file does, and for another one.
Error first_part();
Error other_part();

}  // namespace weightfs::other_files
