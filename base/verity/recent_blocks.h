// Computed bytes that were used last: a source that gathers or decodes its bytes in blocks computes a block once for
// reads that follow each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"

namespace weightfs {

/// The maximum size of all blocks of the process, in bytes. The block used last is kept even if it is larger.
inline constexpr uint64_t kMaxRecentBlocks = uint64_t{32} << 20;

/// The blocks of one source, by index. They are evicted if other sources use theirs, and freed when the last object
/// returned by hold() is destroyed, that is when no file is open. Callable from any thread.
class RecentBlocks {
 public:
  using Fill = std::function<Result<void>(std::span<std::byte>)>;

  RecentBlocks() = default;
  ~RecentBlocks();
  RecentBlocks(const RecentBlocks&) = delete;
  RecentBlocks& operator=(const RecentBlocks&) = delete;

  /// Copies bytes of the block at `index` to `out`: those from `offset` on. `fill` computes the whole block, of `size`
  /// bytes, unless it is kept; what is in its memory before is undefined. Other threads that need the block wait
  /// meanwhile. An error is not kept: each of them then computes the block.
  Result<void> read(uint64_t index, uint64_t size, const Fill& fill, uint64_t offset, std::span<std::byte> out) const;

  /// Returns an object that keeps the blocks; see above. The source of `this` must outlive it.
  std::shared_ptr<const void> hold() const;

 private:
  mutable std::weak_ptr<const void> held_;
};

/// The size of all blocks that are kept now, in bytes.
uint64_t recent_blocks_size();

}  // namespace weightfs
