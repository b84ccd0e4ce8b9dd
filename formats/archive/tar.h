// What the two files of the tar reader share: tar.cc, which alone knows libarchive, and tar_head.cc, which knows a tar
// when it sees one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/blobs.h"

namespace weightfs::tar {

/// Headers are of this size, and what follows each is padded to a multiple of it.
inline constexpr size_t kBlock = 512;

/// Whether `bytes` begin with a header: its checksum is right, and it has the magic number of ustar or the looks of
/// what there was before.
bool is_header(std::string_view bytes);

/// The longest text that hide_access_lists looks for.
inline constexpr size_t kLongestKey = 19;

/// Changes access control lists in headers, of which `bytes` are some and what follows, to what libarchive passes over:
/// the time that it takes to read one grows with the square of its length. Only those that begin in the first `most`.
void hide_access_lists(std::span<char> bytes, size_t most);

/// What a tar may be compressed with: a row of a table.
struct Compression {
  std::string_view name;
  std::string_view magic;                             ///< what compressed bytes begin with
  Result<StreamPtr> (*undone)(SourcePtr compressed);  ///< fails with corrupt, unsupported, and as reading does
};

/// By the magic number at the beginning of `head`; null for none.
const Compression* compression_of(std::string_view head);

/// Undoes bzip2. Fails with corrupt, with unsupported when what comes out is compressed too, and as reading does.
Result<StreamPtr> decompressed_bzip2(SourcePtr compressed);

/// The first kBlock bytes of a stream, or all if it has less.
Result<std::string> first_block(Stream& stream);

}  // namespace weightfs::tar
