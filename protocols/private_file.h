// Files with secrets, which other users must not be able to read.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace weightfs {

/// The text of a regular file of this user to which others have no access. Fails with io and a sentence that begins
/// with its path: also if it has more than `max` bytes.
Result<std::string> read_private_file(const std::string& path, size_t max);

}  // namespace weightfs
