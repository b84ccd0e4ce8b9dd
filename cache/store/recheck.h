// Compares what is read of a cached blob with what was verified when it was cached.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "cache/recheck_policy.h"
#include "cache/store/block_sums.h"
#include "cache/store/file_range.h"

namespace weightfs {

/// One blob in one process. The checks of a block cost one reading of it; after that a read takes no lock.
class RecheckedFile final : public CheckedFile {
 public:
  struct Hooks {
    std::function<std::optional<BlockSums>()> load;  ///< the checksums that were noted; nothing when there are none
    std::function<void(const BlockSums&)> note;      ///< notes them, since there were none
    std::function<void(const std::string& what)> damaged;  ///< the blob is not what was verified: it has to go
    std::function<bool()> stopped;                         ///< whether long computations have to end
  };

  RecheckedFile(const Digest& digest, uint64_t size, Recheck policy, Hooks hooks, std::optional<BlockSums> sums = {});

  Result<void> read(int fd, uint64_t offset, std::span<std::byte> out) override;

 private:
  Result<void> prepare(int fd);
  Result<BlockSums> verify_all(int fd);
  Result<void> check(int fd, size_t block, uint64_t offset, std::span<std::byte> out);
  Error damage(const std::string& what);

  const Digest digest_;
  const uint64_t size_;
  const Recheck policy_;
  const Hooks hooks_;
  std::timed_mutex mutex_;              // held while blocks_ is made
  std::atomic<bool> prepared_ = false;  // then these are there, and stay
  BlockSums sums_;
  std::unique_ptr<std::atomic<uint64_t>[]> checked_;  // a bit for each block that was right
};

}  // namespace weightfs
