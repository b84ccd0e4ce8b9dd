// Computed bytes that were used last: a source that gathers or decodes its bytes in blocks computes a block once for
// reads that follow each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"

namespace weightfs {

/// The maximum size of all blocks of the process, in bytes. The block used last is kept even if it is larger.
inline constexpr uint64_t kMaxRecentBlocks = uint64_t{32} << 20;

/// The blocks of one source, by index. They are evicted if other sources use theirs, and freed when the last object
/// returned by hold() is destroyed, that is when no file is open. Callable from any thread.
class RecentBlocks {
 public:
  using Block = std::shared_ptr<const std::vector<std::byte>>;

  RecentBlocks() = default;
  ~RecentBlocks();
  RecentBlocks(const RecentBlocks&) = delete;
  RecentBlocks& operator=(const RecentBlocks&) = delete;

  /// The block at `index`, computed by `make` unless it is kept. Other threads that need the block wait meanwhile. An
  /// error is returned to each of them, and not kept.
  Result<Block> get(uint64_t index, const std::function<Result<std::vector<std::byte>>()>& make) const;

  /// Returns an object that keeps the blocks; see above. The source of `this` must outlive it.
  std::shared_ptr<const void> hold() const;

 private:
  mutable std::weak_ptr<const void> held_;
};

/// The size of all blocks that are kept now, in bytes.
uint64_t recent_blocks_size();

}  // namespace weightfs
