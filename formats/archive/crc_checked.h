// What a container says of a compressed member, held against what comes out of it.
#pragma once

#include <string>

#include "base/blobs.h"

namespace weightfs {

/// Passes `stream` on, never more than `size` bytes of it. Fails with corrupt, naming `name`, at a byte too many or too
/// few, and at the end if the bytes' CRC-32 is not `crc`.
StreamPtr checked(StreamPtr stream, std::string name, uint64_t size, uint32_t crc);

}  // namespace weightfs
