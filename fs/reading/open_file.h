// An open file of a tree: how its bytes are read, what is read ahead, and which pages are released. Needs no FUSE.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/files/leaf.h"
#include "base/os/memory.h"
#include "base/result.h"
#include "base/source.h"
#include "fs/reading/access_pattern.h"
#include "fs/reading/prefetch.h"
#include "fs/reading/read_buffer.h"
#include "fs/tree/forest.h"

namespace weightfs {

/// The minimum size of a read that is answered from a mapping, and whose pages are released. Fewer bytes are copied
/// sooner than they are mapped.
inline constexpr size_t kLargeRead = MemoryTurn::kLarge;

/// An open file. Callable from any thread. A plain read of a local file takes one lock, for its access pattern.
class OpenFile {
 public:
  /// `prefetch` is told about the first read, and about that of the last byte; null: none is.
  OpenFile(Ino ino, SourcePtr source, Prefetch* prefetch);

  Ino ino() const { return ino_; }
  uint64_t size() const { return source_->size(); }

  /// As those of the Source.
  bool is_ready() const { return weightfs::is_ready(*source_); }
  std::optional<Extent> extent() const { return extent_of(*source_); }

  /// Whether the bytes that were copied from extent() so far are those of the file as it was opened. Fails as a read of
  /// a changed file.
  Result<void> check_unchanged() const;

  /// Whether a cache may keep the bytes of earlier opens: reads return the same bytes.
  bool keeps_pages() const;

  /// One read, in the thread that uses its bytes.
  class Read;

 private:
  void hold();
  void use_direct();
  Result<size_t> copy(uint64_t offset, std::span<std::byte> out, ByteRange expected);
  Result<size_t> read(uint64_t offset, std::span<std::byte> out, ByteRange expected);
  Result<std::optional<MappedBytes>> map(uint64_t offset, size_t size) const;

  enum class Mappable { unknown, yes, no };

  const Ino ino_;
  const SourcePtr source_;
  Prefetch* const prefetch_;
  AccessPattern pattern_;
  std::atomic<Mappable> mappable_ = Mappable::unknown;
  std::atomic<bool> has_begun_ = false;
  std::atomic<bool> is_held_ = false;
  std::atomic<const Source*> direct_ = nullptr;  // Source::verified_file(), once there is one
  std::mutex mutex_;                             // guards the next two
  std::shared_ptr<const void> held_;
  SourcePtr direct_bytes_;  // owns direct_; set once
};

/// What a read does with the pages of the container whose bytes the reader gets.
enum class Pages { kept, released };

/// A read of a file, which has to outlive it.
class OpenFile::Read {
 public:
  /// The bytes [offset, offset + size), at most kMaxRead, of those that the reader will probably read: `expected`, by
  /// default the whole file. No others are requested ahead from a server. Reads are recorded in the order of their
  /// construction.
  Read(OpenFile& file, uint64_t offset, size_t size, Pages pages, std::optional<ByteRange> expected = std::nullopt);

  /// The bytes, fewer than requested only at the end of the file; valid as long as this object. Bytes of a mapping are
  /// only for system calls that copy them, which fail with EFAULT if the file was cut meanwhile. If `memory` is not
  /// empty, the bytes are copied to its beginning, as many as fit. Fails as the source.
  Result<std::span<const std::byte>> bytes(std::span<std::byte> memory = {});

  /// Reads mapped bytes that a system call could not copy: the error is the reason. Throws std::bad_alloc.
  Result<void> read_again();

  /// To be called after the bytes were used: requests from the disk what will probably be read next, and releases
  /// pages.
  void finish() const noexcept;

 private:
  bool is_large() const { return size_ >= kLargeRead; }

  OpenFile& file_;
  const uint64_t offset_;
  const size_t size_;
  const Pages pages_;
  const ByteRange expected_;
  const std::vector<ByteRange> next_;
  const MemoryTurn turn_;
  std::optional<ReadBuffer> buffer_;
  std::optional<MappedBytes> mapped_;
  size_t count_ = 0;
};

}  // namespace weightfs
