// Snappy blocks, as format_description.txt of Snappy 1.1 describes them. A block is decoded as a whole, because it may
// refer to any of its bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weightfs::codec {

/// The number of bytes that a block decodes to, by its first bytes `begin`; the block has `stored` bytes. Fails with
/// corrupt if there is no number, or if no block of this length decodes to so many bytes.
Result<uint64_t> snappy_size(std::string_view begin, uint64_t stored);

/// The bytes that a block decodes to. The caller charges snappy_size() of them before. Fails with corrupt.
Result<std::string> snappy_decode(std::string_view block);

}  // namespace weightfs::codec
