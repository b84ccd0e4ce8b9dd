// The table of LevelDB (SSTable): sorted keys with their values, in blocks. TensorFlow's checkpoints are such tables.
// As doc/table_format.md of LevelDB 1.23 and tensorflow/core/lib/io/format.cc describe it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/format.h"
#include "formats/protobuf/scanner.h"

namespace weightfs::tensorflow {

/// The last bytes of a table: 0xdb4775248b80fb57, little-endian.
inline constexpr std::string_view kTableMagic = "\x57\xFB\x80\x8B\x24\x75\x47\xDB";

/// The place of a block in the file, without the five bytes behind it: its compression and its checksum.
struct BlockHandle {
  uint64_t offset = 0;
  uint64_t size = 0;
};

/// The entries of a block, in its order.
class BlockEntries {
 public:
  /// Fails with corrupt unless the block has its list of restarts.
  static Result<BlockEntries> of(SourcePtr block, Budget* budget);

  /// Moves to the next entry; false at the end. Fails with corrupt if the block is invalid, or its keys do not ascend.
  Result<bool> next();

  const std::string& key() const { return key_; }
  protobuf::Range value() const { return value_; }  ///< in the block
  const SourcePtr& block() const { return block_; }
  protobuf::Scanner& scanner() { return *scanner_; }  ///< of the block

 private:
  BlockEntries(SourcePtr block, Budget* budget)
      : block_(std::move(block)), scanner_(std::make_unique<protobuf::Scanner>(*block_, budget)) {}

  Result<uint64_t> length();

  SourcePtr block_;
  std::unique_ptr<protobuf::Scanner> scanner_;
  std::string key_;
  protobuf::Range value_;
  uint64_t at_ = 0;
  uint64_t end_ = 0;  // of the entries
  bool is_first_ = true;
};

/// A table and its index of blocks.
class Table {
 public:
  struct Block {
    std::string last_key;  ///< not before any key of the block, and before all keys of the next one
    BlockHandle handle;
  };

  /// Reads the footer and the index. Fails with corrupt, also if blocks overlap or are not in the order of the file.
  static Result<Table> open(const Container& container);

  const std::vector<Block>& blocks() const { return blocks_; }

  /// The entries of a block, which is verified and, if it is compressed, decoded in memory; the caller charges that to
  /// `charges`, and releases it with the entries. Fails with corrupt.
  Result<BlockEntries> entries(const BlockHandle& handle, Charges& charges) const;

  /// Compares the checksum of a block with that of its bytes. Reads all of it. Fails with corrupt.
  Result<void> check(const BlockHandle& handle) const;

  /// The data blocks with their checksums. Fails as the budget does.
  Result<FileCheck> checked_blocks(std::string name) const;

  /// The bytes of a block for one whose values are large: in place, not verified, or decoded when they are read.
  Result<SourcePtr> bytes(const BlockHandle& handle) const;

 private:
  explicit Table(const Container& container)
      : file_(container.bytes), blobs_(container.blobs), budget_(container.budget), depth_(container.depth) {}

  Result<BlockHandle> index_handle() const;
  Result<void> read_index();
  Result<void> check_inside(const BlockHandle& handle) const;
  Result<bool> is_compressed(const BlockHandle& handle) const;

  SourcePtr file_;
  BlobsPtr blobs_;
  BudgetPtr budget_;
  int depth_;
  std::vector<Block> blocks_;
};

}  // namespace weightfs::tensorflow
