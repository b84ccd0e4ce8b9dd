// Leaves: the sources that others are made of, and that know about files. Slices, concatenations and lazy sources only
// tell the place of a byte in a leaf (Source::place); the functions below ask the leaves that they find there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/os/descriptor.h"
#include "base/result.h"
#include "base/source.h"

namespace weightfs {

/// A range of a local file that holds bytes uncompressed.
struct Extent {
  int fd;  ///< borrowed: valid as long as `open` and the Source that returned it
  uint64_t offset;
  uint64_t size;
  std::shared_ptr<const void> open = nullptr;  ///< keeps the file open, unless it is null
};

/// Bytes of a file in memory that is mapped, for system calls to copy: they fail with EFAULT if the file was cut. A
/// process that touches the bytes itself gets SIGBUS then.
struct MappedBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> mapping;  ///< keeps them mapped
};

/// What a reader does with bytes.
enum class Advice {
  reads_soon,  ///< they are requested from the disk, at most its read-ahead (by default 128 KiB), unless they are
               ///< cached
  has_read     ///< their pages are released, unless other programs have mapped them
};

/// Bytes of a source that are read: those from `offset` on, as many as fit into `out`.
struct Piece {
  uint64_t offset;
  std::span<std::byte> out;
};

/// A source that is a file, or may become one. By default it is none yet.
class Leaf : public Source {
 public:
  Result<Place> place(uint64_t offset, Opens opens) const final;

  /// As Place::is_ready, of all its bytes. Does not wait.
  virtual bool is_ready() const { return false; }

  /// All its bytes, if they are a plain range of a local file.
  virtual std::optional<Extent> extent() const { return std::nullopt; }

  /// As map_bytes().
  virtual Result<std::optional<MappedBytes>> map(uint64_t offset, size_t size) const;

  /// As advise(), of bytes that it has.
  virtual void advise(ByteRange range, Advice advice) const;

  /// As read_pieces(), of bytes that it has. By default each piece is read.
  virtual Result<void> read_pieces(std::span<const Piece> pieces) const;

  /// As open_whole_file().
  virtual Result<Descriptor> open_whole_file() const;
};

/// Whether reads of `source` wait for nothing but local files: they download nothing, and decode little. Opens nothing.
bool is_ready(const Source& source);

/// Set if the bytes are a plain range of a local file, as zero-copy replies need.
std::optional<Extent> extent_of(const Source& source);

/// The bytes that read() would copy, at most `size`, without a copy. They are checked before, not after they are used,
/// so only a file that is never changed is mapped (as open_whole_file()), and only if the bytes are in one leaf and in
/// the page cache: nothing otherwise, and read() is to be called. Fails as reads do.
Result<std::optional<MappedBytes>> map_bytes(const Source& source, uint64_t offset, size_t size);

/// Advises about the pages of local files that have these bytes. Does not wait for them; errors are ignored.
void advise(const Source& source, ByteRange range, Advice advice);

/// Fills all pieces, as read_exact() fills one. Many small pieces of one leaf cost less than as many reads: a file is
/// examined for changes once, after all of them. If it fails, their bytes are undefined.
Result<void> read_pieces(const Source& source, std::span<const Piece> pieces);

/// Opens, read-only, the local regular file that holds exactly these bytes, from its first to its last. Bytes read from
/// it are not checked any more, so they are verified before, and the file must be one that is never changed. Fails with
/// unsupported if there is no such file; the message is the reason, as in "part of a larger file". Fails with another
/// code if reads would fail.
Result<Descriptor> open_whole_file(const Source& source);

}  // namespace weightfs
