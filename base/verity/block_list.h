// Block lists: the SHA-256 digests of all blocks of a file, with which a range of the file can be verified alone. The
// format is that of Linux's fs-verity (Documentation/filesystems/fsverity.rst), with data and tree blocks of 4096 bytes
// and without a salt.
//
// The file of a block list is the fs-verity descriptor (256 bytes), followed by the Merkle tree, root level first.
// These are the bytes that `fsverity digest` writes with --out-descriptor and with --out-merkle-tree.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/source.h"
#include "base/verity/recent_blocks.h"

namespace weightfs {

inline constexpr size_t kVerityBlockSize = 4096;      ///< of data and tree blocks
inline constexpr size_t kVerityDescriptorSize = 256;  ///< of struct fsverity_descriptor

/// Where the levels of a Merkle tree are in the file of a block list. Level 0 has the digests of the data blocks, the
/// last level is one block. A file of at most one data block has no levels.
class BlockListLayout {
 public:
  explicit BlockListLayout(uint64_t data_size);

  uint64_t data_size() const { return data_size_; }
  uint64_t list_size() const { return list_size_; }  ///< bytes of the block list, with the descriptor
  size_t levels() const { return levels_; }
  uint64_t blocks(size_t level) const { return blocks_[level]; }  ///< the number of tree blocks
  /// The offset of a tree block in the file of the block list.
  uint64_t offset(size_t level, uint64_t block) const { return offsets_[level] + block * kVerityBlockSize; }

 private:
  static constexpr size_t kMaxLevels = 8;  // 2^64 bytes are 2^52 blocks, and a level has 2^7 times fewer

  uint64_t data_size_;
  uint64_t list_size_ = kVerityDescriptorSize;
  size_t levels_ = 0;
  std::array<uint64_t, kMaxLevels> offsets_{};
  std::array<uint64_t, kMaxLevels> blocks_{};
};

/// Computes the block list of a file from its bytes. Keeps one tree block of each level in memory. For one thread.
class BlockListBuilder {
 public:
  /// Writes bytes at an offset in the file of the block list. All bytes are written once, but not in order.
  using Write = std::function<Result<void>(uint64_t offset, std::span<const std::byte> bytes)>;

  /// `size` is the size of the file in bytes.
  BlockListBuilder(uint64_t size, Write write);

  /// Adds the next bytes of the file. Fails with corrupt if they exceed its size, and as `write` does.
  Result<void> add(std::span<const std::byte> bytes);

  /// Writes the rest of the block list, and returns the fs-verity digest of the file. Call it once, after the last
  /// byte. Fails with corrupt if bytes are missing, and as `write` does.
  Result<Digest> finish();

  const BlockListLayout& layout() const { return layout_; }

 private:
  // The tree block of a level that is not complete yet.
  struct Level {
    std::array<std::byte, kVerityBlockSize> bytes{};
    size_t used = 0;
    uint64_t written = 0;  // complete blocks
  };

  Result<void> finish_data_block();
  Result<void> add_digest(size_t level, const Digest& digest);
  Result<void> write_tree_block(size_t level);

  const BlockListLayout layout_;
  const Write write_;
  std::vector<Level> levels_;
  Sha256 data_hash_;  // of the current data block
  Sha256 tree_hash_;
  size_t data_block_used_ = 0;
  uint64_t bytes_added_ = 0;
  Digest root_;
};

/// Verifies ranges of a file with its block list. A tree block is verified up to the root when it is first used;
/// recently used ones stay in memory (RecentBlocks). A block list is as trustworthy as its digest(). Callable from any
/// thread.
class BlockList {
 public:
  /// Opens the file of a block list, and reads its descriptor. Fails with unsupported for other parameters than those
  /// above, with corrupt for any other invalid descriptor and for a size that does not match it, and as reading fails.
  static Result<std::unique_ptr<const BlockList>> open(SourcePtr list);

  BlockList(const BlockList&) = delete;
  BlockList& operator=(const BlockList&) = delete;

  /// The size of the file that the block list describes, in bytes.
  uint64_t size() const { return layout_.data_size(); }

  /// The fs-verity digest of that file: the SHA-256 of the descriptor.
  const Digest& digest() const { return digest_; }

  /// Verifies bytes of the file. They begin at a multiple of kVerityBlockSize, and end at one or at the end of the
  /// file; otherwise it fails with unsupported. Fails with mismatch if a data block or a tree block does not match its
  /// digest, or if the bytes exceed size(), and as reading the block list fails.
  Result<void> verify(uint64_t offset, std::span<const std::byte> bytes) const;

 private:
  BlockList(SourcePtr list, const BlockListLayout& layout, const Digest& root, const Digest& digest)
      : list_(std::move(list)), layout_(layout), root_(root), digest_(digest) {}

  Result<void> read_tree(size_t level, uint64_t block, size_t offset, std::span<std::byte> out) const;
  Result<void> read_tree_block(size_t level, uint64_t block, std::span<std::byte> out) const;

  const SourcePtr list_;
  const BlockListLayout layout_;
  const Digest root_;
  const Digest digest_;
  const RecentBlocks tree_blocks_;
};

using BlockListPtr = std::shared_ptr<const BlockList>;

}  // namespace weightfs
