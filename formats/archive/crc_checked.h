// Checks a decoded member against the size and CRC-32 in its container.
#pragma once

#include <string>

#include "base/blobs.h"

namespace weightfs::archive {

/// Passes `stream` through, at most `size` bytes. Fails with corrupt, naming `name`, if the stream is longer or
/// shorter, and with mismatch at the end if the CRC-32 of the bytes is not `crc`.
StreamPtr crc_checked(StreamPtr stream, std::string name, uint64_t size, uint32_t crc);

}  // namespace weightfs::archive
