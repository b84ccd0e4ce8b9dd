// Reads a sparse member of a tar in place.
#pragma once

#include <string>
#include <vector>

#include "base/source.h"

namespace weightfs::archive::tar {

/// A stored piece of a sparse member.
struct Piece {
  uint64_t begin;  ///< in the member
  uint64_t size;
  uint64_t stored_at;  ///< in the tar
};

/// A member of `size` bytes: its pieces, and zeros in between, which cost nothing to read. `pieces` must be in order,
/// without overlap, and inside the member and the tar. `identity`: as in Source.
SourcePtr sparse_member(SourcePtr tar, uint64_t size, std::vector<Piece> pieces, std::string identity);

}  // namespace weightfs::archive::tar
