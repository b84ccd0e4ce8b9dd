// Checksums of a blob's blocks, saved when its digest is verified. They detect a flipped bit when its block is read,
// without hashing the whole blob. They detect accidents, not attacks: a user who may write to the cache can change both
// blob and checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"

namespace weightfs::store {

/// The CRC-32 of each block.
class BlockSums {
 public:
  static constexpr uint64_t kBlock = 64 * 1024;  ///< bytes per block; the last one may be shorter

  /// Blobs up to this size have no checksum file and no block list: hashing them is fast enough.
  static constexpr uint64_t kWorthAFile = 1 << 20;

  /// Adds the next bytes of the blob.
  void add(std::span<const std::byte> bytes);

  uint64_t size() const { return size_; }  ///< bytes added
  uint32_t sum(size_t block) const { return sums_[block]; }
  size_t blocks() const { return sums_.size(); }

  /// Encodes and decodes the checksum file of a blob; nothing when the file is damaged or belongs to another blob.
  std::string encode(const Digest& digest) const;
  static std::optional<BlockSums> decode(std::string_view file, const Digest& digest, uint64_t size);

  /// The size of the checksum file of a blob of `size` bytes.
  static uint64_t encoded_size(uint64_t size);

 private:
  std::vector<uint32_t> sums_;
  uint64_t size_ = 0;
};

}  // namespace weightfs::store
