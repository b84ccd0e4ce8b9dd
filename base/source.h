// Random-access bytes: a container, a tensor in it, a rendered text. All data is read through this interface.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/later.h"
#include "base/result.h"

namespace weightfs {

class Descriptor;

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

/// The bytes [from, to) of a source.
struct ByteRange {
  uint64_t from;
  uint64_t to;
};

/// Numbers of bytes that are in the cache.
struct CachedBytes {
  uint64_t now = 0;
  uint64_t before = 0;  ///< those of them that this process has not downloaded

  CachedBytes& operator+=(const CachedBytes& other) {
    now += other.now;
    before += other.before;
    return *this;
  }
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

/// How the bytes that reads return are verified, from the worst; `unknown` for bytes that are neither of a server nor
/// of a blob, and before anything is known.
enum class VerifiedBy {
  unknown,
  mismatch,   ///< the digest differs
  unpinned,   ///< only the connection (TLS, or none) protects them, and nothing strong names their version
  transport,  ///< the same, but a strong validator names their version
  blocks,     ///< the hash of each block matched
  whole       ///< the digest of all bytes matched
};

/// For users: "mismatch", "transport" (of unpinned bytes, too), "blocks", "whole"; empty for unknown.
std::string_view to_text(VerifiedBy verification);

/// The worse of two, if both are known; else the known one.
VerifiedBy worse(VerifiedBy a, VerifiedBy b);

/// An immutable run of bytes. All methods may be called from any thread.
class Source {
 public:
  virtual ~Source() = default;
  Source() = default;
  Source(const Source&) = default;
  Source& operator=(const Source&) = default;

  /// The number of bytes; never changes.
  virtual uint64_t size() const = 0;

  /// The number of bytes in storage: fewer than size() if a file has holes.
  virtual uint64_t occupied() const { return size(); }

  /// Copies bytes from `offset` into `out` and returns their number: fewer than requested only at the end of the
  /// source, 0 at and after the end. Fails with io if the bytes cannot be read or have changed since they were opened.
  virtual Result<size_t> read(uint64_t offset, std::span<std::byte> out) const = 0;

  /// Reads as read() does, for a reader that will probably read all bytes of `expected`, which contains these. A source
  /// on a server requests them ahead.
  virtual Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange /*expected*/) const {
    return read(offset, out);
  }

  /// Downloads those of the bytes that are not local, and decodes and verifies a blob. By default reads the last of
  /// them, which does that for blobs.
  virtual Result<void> fetch(ByteRange range) const;

  /// How many of the bytes fetch() would neither download nor decode, because they are in the cache. By default none.
  /// Asks a server for the version of its file, once, as fetch() does, and fails as that.
  virtual Result<CachedBytes> cached(ByteRange /*range*/) const { return CachedBytes{}; }

  /// Fills all pieces, as read_exact() fills one. Many small pieces cost less than as many reads: a file is examined
  /// for changes once, after all of them. If it fails, their bytes are undefined.
  virtual Result<void> read_pieces(std::span<const Piece> pieces) const;

  /// Set if the bytes are a plain range of a local file, as zero-copy replies need.
  virtual std::optional<Extent> extent() const { return std::nullopt; }

  /// Whether reads wait for nothing but local files: they download nothing, and decode little. Downloads nothing.
  virtual bool is_local() const { return extent().has_value(); }

  /// The bytes that read() would copy, at most `size`, without a copy. They are checked before, not after they are
  /// used, so only a file that is never changed is mapped (as open_whole_file()), and only if the bytes are in the page
  /// cache: nothing otherwise, and read() is to be called. Fails as reads do.
  virtual Result<std::optional<MappedBytes>> map(uint64_t /*offset*/, size_t /*size*/) const { return std::nullopt; }

  /// Advises about the pages of local files that have these bytes. Does not wait for them; errors are ignored.
  virtual void advise(ByteRange /*range*/, Advice /*advice*/) const {}

  /// Keeps the cached bytes of this source cached, and its file open, while the returned object exists; null if they
  /// are never evicted or closed. An open file holds its source.
  virtual std::shared_ptr<const void> hold() const { return nullptr; }

  /// Opens, read-only, the local regular file that holds exactly these bytes, from its first to its last. Bytes read
  /// from it are not checked any more, so they are verified before, and the file must be one that is never changed.
  /// Fails with unsupported if there is no such file; the message is the reason, as in "part of a larger file". Fails
  /// with another code if reads would fail.
  virtual Result<Descriptor> open_whole_file() const;

  /// A string that is unique to these bytes across processes: of a file its device, inode, size and times. Derived data
  /// is cached under it. Empty if there is none.
  virtual std::string identity() const { return {}; }

  /// How the bytes that reads return now are verified. Cheap: reads and downloads nothing.
  virtual VerifiedBy verification() const { return VerifiedBy::unknown; }

  /// A source of these bytes for a reader that reads them often: they are local and verified, and their file is open as
  /// long as the returned source exists, so its reads search nothing, and those of a cached blob take no lock. Null if
  /// there are none, or none yet.
  virtual std::shared_ptr<const Source> direct() const { return nullptr; }
};

using SourcePtr = std::shared_ptr<const Source>;

/// Bytes held in memory.
SourcePtr in_memory(std::string bytes);

/// A range of another source, as a value. slice() and TensorList::set_source check the bounds of every tensor.
class Slice final : public Source {
 public:
  /// An empty slice: reading it fails. It represents a rejected tensor.
  Slice() = default;

  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override;
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override;
  Result<void> fetch(ByteRange range) const override;
  Result<CachedBytes> cached(ByteRange range) const override;
  Result<void> read_pieces(std::span<const Piece> pieces) const override;
  Result<Descriptor> open_whole_file() const override;
  uint64_t occupied() const override { return whole_ == nullptr ? 0 : std::min(size_, whole_->occupied()); }
  std::optional<Extent> extent() const override;
  bool is_local() const override { return whole_ != nullptr && whole_->is_local(); }
  Result<std::optional<MappedBytes>> map(uint64_t offset, size_t size) const override;
  void advise(ByteRange range, Advice advice) const override;
  std::string identity() const override;
  std::shared_ptr<const void> hold() const override { return whole_ == nullptr ? nullptr : whole_->hold(); }
  VerifiedBy verification() const override;
  std::shared_ptr<const Source> direct() const override;

  bool refused() const { return whole_ == nullptr; }
  const SourcePtr& whole() const { return whole_; }  ///< the source that it is a slice of
  uint64_t offset() const { return offset_; }        ///< of its first byte in whole()

 private:
  friend Result<Slice> slice(SourcePtr whole, uint64_t offset, uint64_t size);
  ByteRange in_whole(ByteRange range) const;
  Slice(SourcePtr whole, uint64_t offset, uint64_t size) : whole_(std::move(whole)), offset_(offset), size_(size) {}

  SourcePtr whole_;
  uint64_t offset_ = 0;
  uint64_t size_ = 0;
};

/// The `size` bytes at `offset` of `whole`; fails with corrupt if they are not all inside.
Result<Slice> slice(SourcePtr whole, uint64_t offset, uint64_t size);

/// The concatenation of `parts`.
SourcePtr concat(std::vector<SourcePtr> parts);

/// A source of known size whose bytes are computed on first read. Reads fail with io if the result has another size.
SourcePtr lazy(uint64_t size, Later<SourcePtr> made);

/// The number of bytes of `wanted` before the end of `size` bytes; 0 at and after the end.
size_t bytes_inside(uint64_t size, uint64_t offset, size_t wanted);

/// Fails with corrupt unless the source has all bytes of the piece.
Result<void> check_inside(const Source& source, const Piece& piece);

/// Fills `out` from `offset`; fails with corrupt if the source is too short.
Result<void> read_exact(const Source& source, uint64_t offset, std::span<std::byte> out);
/// Does the same by read_ahead().
Result<void> read_exact(const Source& source, uint64_t offset, std::span<std::byte> out, ByteRange expected);

/// The bytes [offset, offset + size) as a string; fails with corrupt if the source is too short. The caller bounds
/// `size`; nothing is allocated beyond the source's end.
Result<std::string> read_text(const Source& source, uint64_t offset, uint64_t size);

}  // namespace weightfs
