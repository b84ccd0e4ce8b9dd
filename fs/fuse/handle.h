// An open file of a session: how its bytes are read, and what is read ahead.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fs/fuse/access_pattern.h"
#include "fs/fuse/operations.h"

namespace weightfs::fuse {

/// Callable from any thread.
class Server::Handle : public std::enable_shared_from_this<Handle> {
 public:
  /// Whether reads count as use of the mount; reads of .weightfs/ do not.
  enum class Reads { counted, uncounted };

  /// `inode` is null for a file of .weightfs/.
  Handle(SourcePtr source, Passthrough::OpenInodePtr inode, Reads reads)
      : source_(std::move(source)), inode_(std::move(inode)), reads_(reads) {
    hold();
  }

  /// Whether reads wait for nothing but local files.
  bool is_local() const { return source_->is_local(); }

  Tier tier() const { return inode_ == nullptr ? Tier{} : Passthrough::tier(*inode_); }

  bool is_counted() const { return reads_ == Reads::counted; }

  /// Whether the kernel may keep the pages of earlier opens: reads return the same bytes.
  bool keeps_pages() const {
    const VerifiedBy now = source_->verification();
    return now == VerifiedBy::unknown || now >= VerifiedBy::transport;
  }

  /// Whether the pages of the container are released from which the kernel has copied bytes into those of the mount.
  enum class Pages { kept, released };

  /// The bytes that will probably be read after these, if the kernel does not read them ahead. In the order of the
  /// reads, so it is called before the reply.
  std::vector<ByteRange> next_after(ByteRange read) { return pattern_.next_after(read, source_->size()); }

  /// After the reply: requests the next bytes from the disk.
  void finish_read(ByteRange read, std::span<const ByteRange> next, Pages pages) const noexcept {
    try {
      for (const ByteRange& range : next) source_->advise(range, Advice::reads_soon);
      if (pages == Pages::released) source_->advise(read, Advice::has_read);
    } catch (const std::exception&) {
      // Out of memory. The bytes were right, and the next read gives advice again.
    }
  }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) {
    if (const Source* const direct = direct_.load(std::memory_order_acquire))
      return direct->read_ahead(offset, out, {0, source_->size()});
    auto got = source_->read_ahead(offset, out, {0, source_->size()});
    if (!is_held_) hold();  // the source may have become available since
    if (got) use_direct();
    if (mappable_ == Mappable::unknown && got) {
      const auto mapped = source_->map(source_->size(), 0);  // in a .npy file, the header precedes mapped bytes
      mappable_ = mapped && *mapped ? Mappable::yes : Mappable::no;
    }
    return got;
  }

  /// Maps the bytes instead of copying them; nothing if they are to be read, as the first bytes are.
  Result<std::optional<MappedBytes>> map(uint64_t offset, size_t size) const {
    if (mappable_ != Mappable::yes) return std::nullopt;
    return source_->map(offset, size);
  }

  /// Reads, and tells `prefetch` about the first read of the file, and about that of its last byte.
  Result<size_t> read(Ino ino, uint64_t offset, std::span<std::byte> out, Prefetch& prefetch) {
    const Prefetch::Read in_progress(prefetch);
    if (!has_begun_.exchange(true)) prefetch.begin_file(ino);
    auto got = read(offset, out);
    if (got && *got > 0 && offset + *got == source_->size()) prefetch.finish_file(ino);
    return got;
  }

 private:
  void hold() {
    auto held = source_->hold();
    if (held == nullptr) return;
    const std::scoped_lock lock(mutex_);
    if (is_held_.exchange(true)) return;
    held_ = std::move(held);
  }

  void use_direct() {
    auto direct = source_->direct();
    if (direct == nullptr) return;
    const std::scoped_lock lock(mutex_);
    if (direct_ != nullptr) return;
    direct_bytes_ = std::move(direct);
    direct_.store(direct_bytes_.get(), std::memory_order_release);
  }

  enum class Mappable { unknown, yes, no };

  SourcePtr source_;
  const Passthrough::OpenInodePtr inode_;
  const Reads reads_;
  AccessPattern pattern_;
  std::atomic<Mappable> mappable_ = Mappable::unknown;
  std::atomic<bool> has_begun_ = false;
  std::atomic<bool> is_held_ = false;
  std::atomic<const Source*> direct_ = nullptr;  // Source::direct(), once there is one
  std::mutex mutex_;                             // guards the next two
  std::shared_ptr<const void> held_;
  SourcePtr direct_bytes_;  // owns direct_; set once
};

}  // namespace weightfs::fuse
