// Compressed files other than tars: which compression it is, and what is inside.
#pragma once

#include <optional>

#include "formats/format.h"

namespace weightfs::other_files {

/// "gzip of a GGUF; unpack it first", for a file that begins with `head`. Decodes 512 bytes, which is charged to the
/// container's budget. Nothing if it is not compressed as a whole. Fails with io.
Result<std::optional<Error>> compressed(const Container& container, std::string_view head);

}  // namespace weightfs::other_files
