// A member of a tar with holes, read where it lies.
#pragma once

#include <string>
#include <vector>

#include "base/source.h"

namespace weightfs::tar {

/// A piece of a member that is stored: where it belongs, and where its bytes lie in the tar.
struct Piece {
  uint64_t begin;  ///< in the member
  uint64_t size;
  uint64_t stored_at;  ///< in the tar
};

/// A member of `size` bytes: its pieces, and zeros between them, which cost nothing to read. `pieces`: in order,
/// without overlap, all inside the member and the tar. `identity`: as Source has it.
SourcePtr sparse_member(SourcePtr tar, uint64_t size, std::vector<Piece> pieces, std::string identity);

}  // namespace weightfs::tar
