// Compares reads of a cached blob with the verified checksums.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "cache/recheck_policy.h"
#include "cache/store/block_set.h"
#include "cache/store/block_sums.h"

namespace weightfs::store {

class DiskBackend;

/// State per blob and process. Each block is compared once; later reads take no lock. Thread-safe.
class RecheckedFile {
 public:
  /// Checks a blob of `backend`, which has its checksums unless they are given as `sums`, and removes the blob if it is
  /// damaged. May outlive the backend: then damage is reported to the reader only.
  RecheckedFile(const std::shared_ptr<DiskBackend>& backend, const Digest& digest, ino_t inode, uint64_t size,
                std::optional<BlockSums> sums = {});

  /// As FileRange::read(); also fails with io when the bytes differ from the verified ones.
  Result<void> read(int fd, uint64_t offset, std::span<std::byte> out);

  /// Compares all bytes that were not compared yet, without waiting for a disk if the policy compares each block at its
  /// first read. Fails with unsupported if some are left, and as read() does.
  Result<void> check_all(int fd);

 private:
  std::optional<BlockSums> saved_sums() const;
  bool is_stopped() const;
  Result<void> read_stored(int fd, uint64_t offset, std::span<std::byte> out);
  Result<void> prepare(int fd);
  Result<BlockSums> verify_all(int fd);
  Result<void> check(int fd, size_t block, uint64_t offset, std::span<std::byte> out);
  Result<void> compare(size_t block, std::span<const std::byte> bytes);
  Error damage(const std::string& what);

  const std::weak_ptr<DiskBackend> backend_;
  const Digest digest_;
  const ino_t inode_;
  const uint64_t size_;
  const Recheck policy_;
  const std::stop_token stop_;          // of the backend
  std::timed_mutex mutex_;              // held during prepare()
  std::atomic<bool> prepared_ = false;  // if set, the next two are constant
  BlockSums sums_;
  BlockSet checked_;  // blocks that were compared
};

}  // namespace weightfs::store
