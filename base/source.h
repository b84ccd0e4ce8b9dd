// Random-access bytes: a container, a tensor inside it, a rendered text. Everything that is read is read through this.
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

struct stat;

namespace weightfs {

/// Where bytes lie plainly in a local file. Valid as long as the Source that gave it; `fd` is borrowed.
struct Extent {
  int fd;
  uint64_t offset;
  uint64_t size;
};

/// An immutable run of bytes. All methods may be called from any thread.
class Source {
 public:
  virtual ~Source() = default;
  Source() = default;
  Source(const Source&) = default;
  Source& operator=(const Source&) = default;

  /// How many bytes there are; never changes.
  virtual uint64_t size() const = 0;

  /// How many bytes these take in storage: fewer than size() where a file has holes.
  virtual uint64_t occupied() const { return size(); }

  /// Copies bytes from `offset` on into `out` and returns how many: fewer than asked only where the source ends, 0 from
  /// the end on. Fails with io when the bytes cannot be had or are no longer those that were opened.
  virtual Result<size_t> read(uint64_t offset, std::span<std::byte> out) const = 0;

  /// Set when the bytes are a plain range of a local file, which zero-copy replies need.
  virtual std::optional<Extent> extent() const { return std::nullopt; }

  /// Keeps what is at hand of these bytes at hand, as long as somebody has what it returns; null where they do not go
  /// away. Whoever has a file open holds its source.
  virtual std::shared_ptr<const void> hold() const { return nullptr; }

  /// A text that no other bytes have, from one process to the next: of a file its device, inode, size and times. What
  /// was made of these bytes is found again by it. Empty when there is none.
  virtual std::string identity() const { return {}; }
};

using SourcePtr = std::shared_ptr<const Source>;

/// Opens a regular file. Its inode, size, modification and change time are remembered. A read after one of them
/// changed, or after another file took the path, fails with io, as do all later reads: bytes of two versions never mix.
/// A change time that a rename, link, unlink, chmod or chown explains is accepted if no other user may write the file
/// (see is_private_file). A read fails with unavailable when the calling thread's work was cancelled
/// (base/cancel.h). Fails with not_found or io.
Result<SourcePtr> open_file(const std::string& path);

/// Whether only the user of this process and root may write to the file: one of them owns it, and its mode lets no
/// others write, or only a group that has no other member than this user (a user private group).
bool is_private_file(const struct stat& file);

/// Bytes held in memory.
SourcePtr in_memory(std::string bytes);

/// A range of another source, as a value. The one bounds check of every tensor is in slice().
class Slice final : public Source {
 public:
  /// A slice of nothing: empty() is true and reading it fails. It stands for a tensor that was refused.
  Slice() = default;

  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override;
  uint64_t occupied() const override { return whole_ == nullptr ? 0 : std::min(size_, whole_->occupied()); }
  std::optional<Extent> extent() const override;
  std::string identity() const override;
  std::shared_ptr<const void> hold() const override { return whole_ == nullptr ? nullptr : whole_->hold(); }

  bool refused() const { return whole_ == nullptr; }
  const SourcePtr& whole() const { return whole_; }  ///< what it is a slice of
  uint64_t offset() const { return offset_; }        ///< where in whole() it begins

 private:
  friend Result<Slice> slice(SourcePtr whole, uint64_t offset, uint64_t size);
  Slice(SourcePtr whole, uint64_t offset, uint64_t size) : whole_(std::move(whole)), offset_(offset), size_(size) {}

  SourcePtr whole_;
  uint64_t offset_ = 0;
  uint64_t size_ = 0;
};

/// The `size` bytes at `offset` of `whole`; fails with corrupt when they are not all inside it.
Result<Slice> slice(SourcePtr whole, uint64_t offset, uint64_t size);

/// `parts` one after the other.
SourcePtr concat(std::vector<SourcePtr> parts);

/// A source of known size whose bytes are made on first read. Reads fail with io if what is made has another size.
SourcePtr lazy(uint64_t size, Later<SourcePtr> made);

/// Fills `out` from `offset`, or fails with corrupt if the source ends before.
Result<void> read_exact(const Source& source, uint64_t offset, std::span<std::byte> out);

/// The bytes [offset, offset + size) as a string; fails with corrupt if they are not all there. The caller bounds
/// `size`; nothing is allocated beyond the source's end.
Result<std::string> read_text(const Source& source, uint64_t offset, uint64_t size);

}  // namespace weightfs
