// The disk quota of a store, shared by all its processes.
// Invariant: under the store's lock, the bytes recorded in the ledger are never less than the bytes in use. Reserving
// space only increases that number; when it reaches the quota, all files are scanned and the number is corrected. A
// partial download stays recorded, so resuming it reserves only the remaining bytes.
// Eviction order: abandoned partial downloads (oldest first), then the least recently used blobs and blocks of remote
// files. Pinned blobs and files that are being written are never evicted.
// Not recorded: directories, the lock file, and deleted blobs that a process has open; their blocks are freed when that
// process closes them (at its next open or eviction).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "base/os/descriptor.h"
#include "cache/store/inventory.h"

namespace weightfs {
namespace store {

/// The store's lock, and the recorded number of bytes in use that it protects. During its lifetime no other process
/// evicts or reserves space.
class QuotaLedger {
 public:
  /// Fails with resource when the lock is busy for two seconds, when `stop` is set, and when the thread is cancelled.
  static Result<QuotaLedger> lock(const Folders& folders, const std::stop_token& stop);

  /// The recorded bytes; nothing when the record is not valid.
  std::optional<uint64_t> read() const;
  void write(uint64_t used) const;

 private:
  explicit QuotaLedger(Descriptor file) : file_(std::move(file)) {}

  Descriptor file_;
};

}  // namespace store

/// A quarter of the file system that holds `path` or its nearest existing parent.
uint64_t default_quota(std::string path);

/// The disk space of a file of `size` bytes: whole blocks, plus file system metadata.
uint64_t allocated(uint64_t size);

/// Allocates bytes of a file without changing its size. False with errno set on failure; true where the file system
/// does not support preallocation.
bool allocate(int fd, uint64_t from, uint64_t to);

/// Corrects the ledger, and evicts until at most `max_bytes` are in use or nothing more can be evicted.
Result<GcResult> shrink(const Folders& folders, uint64_t max_bytes);

/// Thread-safe.
class DiskQuota {
 public:
  /// `on_evict` is called after every eviction.
  DiskQuota(uint64_t quota, std::function<void()> on_evict) : quota_(quota), on_evict_(std::move(on_evict)) {}

  /// Allocates the first `size` bytes of a file, and evicts others if necessary and `eviction` permits it. What the
  /// file has on disk already is recorded. Fails when the store's lock is busy for two seconds, and when `stop` is set.
  Result<void> reserve(const Folders& folders, int fd, uint64_t size, store::Eviction eviction,
                       const std::stop_token& stop);

  /// Allocates the bytes [from, to) of a sparse file, which it does not have, and records them and a page of their map
  /// (cache/blocks/block_file.h); evicts and fails as reserve() does.
  Result<void> reserve_range(const Folders& folders, int fd, uint64_t from, uint64_t to, const std::stop_token& stop);

  /// Records a symbolic link that is about to be created in index/.
  Result<void> reserve_link(const Folders& folders);

  /// Records a file of `size` bytes that is about to be created, if it fits; evicts nothing.
  bool try_reserve(const Folders& folders, uint64_t size);

  /// For a full disk: evicts `size` bytes regardless of the quota. False when nothing could be evicted.
  bool free_up(const Folders& folders, uint64_t size, const std::stop_token& stop);

 private:
  bool fits(uint64_t used, uint64_t needed) const { return used <= quota_ && needed <= quota_ - used; }
  Result<void> record_and_allocate(const Folders& folders, const store::QuotaLedger& ledger, int fd, uint64_t from,
                                   uint64_t to, uint64_t needed, store::Eviction eviction);
  Result<void> record(const Folders& folders, const store::QuotaLedger& ledger, uint64_t needed,
                      store::Eviction eviction);
  bool make_room(const Folders& folders, const store::QuotaLedger& ledger, uint64_t needed, uint64_t reserved);

  const uint64_t quota_;
  const std::function<void()> on_evict_;
};

}  // namespace weightfs
