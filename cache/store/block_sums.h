// Checksums of a blob's blocks, noted when its digest was verified. With them a bit that flips on disk is found when
// its block is read, without reading the whole blob. They find accidents, not attacks: a user who may write
// to the cache can change the blob and its sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"

namespace weightfs {

/// The CRC-32 of each block.
class BlockSums {
 public:
  static constexpr uint64_t kBlock = 64 * 1024;  ///< bytes in a block; the last one may be shorter

  /// Blobs up to this size have no file of checksums: to compute their digest takes little longer.
  static constexpr uint64_t kWorthAFile = 1 << 20;

  /// Adds the next bytes of the blob.
  void add(std::span<const std::byte> bytes);

  uint64_t size() const { return size_; }  ///< bytes added
  uint32_t sum(size_t block) const { return sums_[block]; }
  size_t blocks() const { return sums_.size(); }

  /// The file of checksums of the blob of that digest, and back; nothing when it is damaged or of another blob.
  std::string encode(const Digest& digest) const;
  static std::optional<BlockSums> decode(std::string_view file, const Digest& digest, uint64_t size);

  /// The size of such a file, for a blob of `size` bytes.
  static uint64_t encoded_size(uint64_t size);

 private:
  std::vector<uint32_t> sums_;
  uint64_t size_ = 0;
};

}  // namespace weightfs
