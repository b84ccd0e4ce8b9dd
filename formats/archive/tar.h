// Internals that tar.cc, the only user of libarchive, tar_head.cc (detection, decoding) and tar_names.cc share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/blobs.h"
#include "formats/codec/codec_meter.h"
#include "formats/codec/compared_input.h"
#include "formats/format.h"

namespace weightfs::archive {
struct Archive;
}

namespace weightfs::archive::tar {

/// The size of a header; the data after it are padded to a multiple of it.
inline constexpr size_t kBlock = 512;

/// Whether `bytes` begin with a header: its checksum is right, and it has the magic number of ustar or the form of the
/// older formats.
bool is_header(std::string_view bytes);

/// The length of the longest key that hide_access_lists searches for.
inline constexpr size_t kMaxKeyLength = 19;

/// Renames access control lists in the headers in `bytes`, so that libarchive ignores them: its time to read one grows
/// with the square of the list's length. Only those that begin in the first `most` bytes.
void hide_access_lists(std::span<char> bytes, size_t most);

/// A compression of tars: a row of a table.
struct Compression {
  std::string_view name;
  std::string_view magic;                                 ///< the magic number of compressed data
  Result<StreamPtr> (*decompress)(SourcePtr compressed);  ///< fails with corrupt, unsupported, and as reading does
  uint64_t output_cost;  ///< of a decoded byte, in units of Cost::output: of Deflate, 1
};

/// The compression by the magic number at the beginning of `head`; null for none.
const Compression* compression_of(std::string_view head);

/// The compression of that name; null for none.
const Compression* compression_named(std::string_view name);

/// The tar that the compressed bytes of a container decode to, as a blob; null for a plain tar. `stated`: see
/// tar_members(). Fails as decoding does, with unsupported for other data, and with mismatch if the bytes do not have
/// the stated digest.
Result<SourcePtr> decompressed_tar(const Container& container, const std::optional<codec::StatedInput>& stated,
                                   const codec::DecodeChargePtr& charge);

/// Decodes bzip2. Fails with corrupt, with unsupported if the output is compressed too, and as reading does.
Result<StreamPtr> bzip2_stream(SourcePtr compressed);

/// Decodes frames of LZ4. Fails as bzip2_stream() does.
Result<StreamPtr> lz4_stream(SourcePtr compressed);

/// The first kBlock bytes of a stream, or all if it has less.
Result<std::string> first_block(Stream& stream);

/// What the headers of one member say in two ways, so that libarchive, GNU tar and Python's tarfile read different
/// members; nothing if they do not. `headers`: the blocks of all its headers, from the first extended one on.
std::optional<std::string> contradiction(std::string_view headers);

/// Whether the last of these headers is one of GNU tar with times where ustar has a part of the name, which tarfile
/// takes for it.
bool has_times_as_name(std::string_view headers);

/// Fails with corrupt if GNU tar and tarfile write different bytes to a file. `has_times`: of a member's headers.
Result<void> check_names(const Archive& archive, bool has_times);

}  // namespace weightfs::archive::tar
