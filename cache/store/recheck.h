// Compares reads of a cached blob with the verified checksums.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
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

/// State per blob and process. Each block is compared once; later reads take no lock. Thread-safe.
class RecheckedFile {
 public:
  struct Hooks {
    std::function<std::optional<BlockSums>()> load;              ///< the saved checksums; nothing if there are none
    std::function<void(const BlockSums&)> save;                  ///< saves missing checksums
    std::function<void(const std::string& what)> report_damage;  ///< the blob is damaged and must be removed
    std::stop_token stop;                                        ///< ends long computations
  };

  RecheckedFile(const Digest& digest, uint64_t size, Recheck policy, Hooks hooks, std::optional<BlockSums> sums = {});

  /// As FileRange::read(); also fails with io when the bytes differ from the verified ones.
  Result<void> read(int fd, uint64_t offset, std::span<std::byte> out);

  /// Compares all bytes that were not compared yet, without waiting for a disk if the policy compares each block at its
  /// first read. Fails with unsupported if some are left, and as read() does.
  Result<void> check_all(int fd);

 private:
  Result<void> read_stored(int fd, uint64_t offset, std::span<std::byte> out);
  Result<void> prepare(int fd);
  Result<BlockSums> verify_all(int fd);
  Result<void> check(int fd, size_t block, uint64_t offset, std::span<std::byte> out);
  Result<void> compare(size_t block, std::span<const std::byte> bytes);
  Error damage(const std::string& what);

  const Digest digest_;
  const uint64_t size_;
  const Recheck policy_;
  const Hooks hooks_;
  std::timed_mutex mutex_;              // held during prepare()
  std::atomic<bool> prepared_ = false;  // if set, the next two are constant
  BlockSums sums_;
  BlockSet checked_;  // blocks that were compared
};

}  // namespace weightfs::store
