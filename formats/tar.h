// What the files of the tar reader share: tar.cc, which alone knows libarchive, tar_head.cc, which knows a tar when it
// sees one, and tar_gzip.cc.
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

/// What a tar may be compressed with.
enum class Compression { none, gzip, xz, zstd, bzip2 };

std::string_view name_of(Compression compression);

/// By the magic number at the beginning of `head`.
Compression compression_of(std::string_view head);

/// What `stored` decompresses to. Fails with corrupt, with unsupported when that is compressed the same way again, and
/// as reading does.
Result<StreamPtr> decoded(const SourcePtr& stored, Compression compression);

/// The first kBlock bytes of a stream, or all if it has less.
Result<std::string> first_block(Stream& stream);

/// The sums that a gzip stream (RFC 1952) ends with, which libarchive skips.
class GzipSums {
 public:
  /// More of what the stream holds.
  void add(std::span<const std::byte> bytes);

  /// Fails with corrupt unless what was added is what `stored` says, whose last member ends at `end`. Of several
  /// members only the sizes are compared: only the last tells where it ends, so nobody knows what the other checksums
  /// are of.
  Result<void> check(const Source& stored, uint64_t end) const;

 private:
  uint32_t crc_ = 0;
  uint64_t size_ = 0;
};

}  // namespace weightfs::tar
