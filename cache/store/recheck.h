// Compares reads of a cached blob with the verified checksums.
#pragma once

#include <atomic>
#include <functional>
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

/// What the store of a blob does for its comparison. The functions may outlive the store, and do nothing then.
struct BlobKeeper {
  Recheck policy = Recheck::read;
  std::stop_token stop = {};                             ///< ends comparisons
  std::function<std::optional<BlockSums>()> saved_sums;  ///< the saved checksums of the blob
  std::function<void(const BlockSums&)> save_sums;
  std::function<void(const std::string& what)> remove_damaged;  ///< removes the blob; `what` is wrong with it
};

/// State per blob and process. Each block is compared once; later reads take no lock. Thread-safe.
class RecheckedFile {
 public:
  /// The blob has `size` bytes. `sums` are its checksums, if they are known and need not be read.
  RecheckedFile(BlobKeeper keeper, const Digest& digest, uint64_t size, std::optional<BlockSums> sums = {});

  /// As FileRange::read(); also fails with io when the bytes differ from the verified ones.
  Result<void> read(int fd, uint64_t offset, std::span<std::byte> out);

  /// Compares all bytes that were not compared yet, without waiting for a disk if the policy compares each block at its
  /// first read. Fails with unsupported if some are left, and as read() does.
  Result<void> check_all(int fd);

 private:
  bool is_stopped() const;
  Result<void> read_stored(int fd, uint64_t offset, std::span<std::byte> out);
  Result<void> prepare(int fd);
  Result<BlockSums> verify_all(int fd);
  Result<void> check(int fd, size_t block, uint64_t offset, std::span<std::byte> out);
  Result<void> compare(size_t block, std::span<const std::byte> bytes);
  Error damage(const std::string& what);

  const BlobKeeper keeper_;
  const Digest digest_;
  const uint64_t size_;
  std::timed_mutex mutex_;              // held during prepare()
  std::atomic<bool> prepared_ = false;  // if set, the next two are constant
  BlockSums sums_;
  BlockSet checked_;  // blocks that were compared
};

}  // namespace weightfs::store
