// Random-access bytes: a container, a tensor in it, a rendered text. All data is read through this interface.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/later.h"
#include "base/result.h"

namespace weightfs {

class Leaf;

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

/// The cached part of a range of `made` bytes that is computed from `stored` bytes, of which these are cached: as large
/// a part, and all of it only if all are cached.
CachedBytes in_proportion(const CachedBytes& cached, uint64_t stored, uint64_t made);

/// Where bytes are that follow each other: in a leaf (base/files/leaf.h), a source that knows about files.
struct Place {
  const Leaf* leaf = nullptr;                   ///< borrowed: valid as long as `owner` and the Source that returned it.
                                                ///< Null if they are in none, or if that is not known
  uint64_t offset = 0;                          ///< of the first of them in the leaf
  uint64_t length = 0;                          ///< their number; 0 only at and after the end of the source
  bool is_ready = false;                        ///< reads of them wait for nothing but local files: they download
                                                ///< nothing, and decode little
  std::shared_ptr<const void> owner = nullptr;  ///< keeps the leaf, unless it is null
};

/// What place() may do to find a leaf. It never computes a lazy source.
enum class Opens {
  nothing,  ///< it does not wait
  files     ///< it opens what a read opens, which may wait for a server
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

  /// Does what reads of these bytes would wait for: downloads those that are not local, and decodes and verifies a
  /// blob. By default reads the last byte, which does that for a blob, and one small read for a local file; nothing in
  /// a DownloadScope (base/download_scope.h).
  virtual Result<void> prefetch(ByteRange range) const;

  /// How many of the bytes prefetch() would neither download nor decode, because they are in the cache. By default
  /// none. Asks a server for the version of its file, once, as prefetch() does, and fails as that.
  virtual Result<CachedBytes> cached(ByteRange /*range*/) const { return CachedBytes{}; }

  /// The place of the bytes from `offset` on: of all up to the end of the source, or of fewer. At and after the end of
  /// the source it is the end of the last place. A source that is made of others asks the one that has these bytes. By
  /// default no leaf has them: they are computed or downloaded. Fails as reads do.
  virtual Result<Place> place(uint64_t offset, Opens opens) const;

  /// Keeps the cached bytes of this source cached, and its file open, while the returned object exists; null if they
  /// are never evicted or closed. An open file holds its source.
  virtual std::shared_ptr<const void> keep_cached() const { return nullptr; }

  /// A string that is unique to these bytes across processes: of a file its device, inode, size and times. Derived data
  /// is cached under it. Empty if there is none.
  virtual std::string identity() const { return {}; }

  /// How the bytes that reads return now are verified. Cheap: reads and downloads nothing.
  virtual VerifiedBy verification() const { return VerifiedBy::unknown; }

  /// A source of these bytes for a reader that reads them often: they are in a local file, verified if they have a
  /// digest, and the file is open as long as the returned source exists, so its reads search nothing, and take no lock
  /// in the cache. Null if there is none, or none yet.
  virtual std::shared_ptr<const Source> verified_file() const { return nullptr; }

  /// The bytes without a comparison, where a read waits for the verification of all: for parsers of headers. What was
  /// parsed is compared later. Never to be served. Null for other sources. Opens what a read opens.
  virtual std::shared_ptr<const Source> unverified() const { return nullptr; }

 protected:
  uint64_t bytes_after(uint64_t offset) const;  ///< the number of bytes from `offset` on
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
  Result<void> prefetch(ByteRange range) const override;
  Result<CachedBytes> cached(ByteRange range) const override;
  Result<Place> place(uint64_t offset, Opens opens) const override;
  uint64_t occupied() const override { return whole_ == nullptr ? 0 : std::min(size_, whole_->occupied()); }
  std::string identity() const override;
  std::shared_ptr<const void> keep_cached() const override {
    return whole_ == nullptr ? nullptr : whole_->keep_cached();
  }
  VerifiedBy verification() const override;
  std::shared_ptr<const Source> verified_file() const override;

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
/// Source::unverified() is that of the result, unless `unverified` is given.
SourcePtr lazy(uint64_t size, Later<SourcePtr> made, SourcePtr unverified = nullptr);

/// The number of bytes of `wanted` before the end of `size` bytes; 0 at and after the end.
size_t bytes_inside(uint64_t size, uint64_t offset, size_t wanted);

/// Fails with corrupt unless the source has all bytes [offset, offset + size).
Result<void> check_inside(const Source& source, uint64_t offset, uint64_t size);

/// Fills `out` from `offset`; fails with corrupt if the source is too short.
Result<void> read_exact(const Source& source, uint64_t offset, std::span<std::byte> out);
/// Does the same by read_ahead().
Result<void> read_exact(const Source& source, uint64_t offset, std::span<std::byte> out, ByteRange expected);

/// The bytes [offset, offset + size) as a string; fails with corrupt if the source is too short. The caller bounds
/// `size`; nothing is allocated beyond the source's end.
Result<std::string> read_text(const Source& source, uint64_t offset, uint64_t size);

}  // namespace weightfs
