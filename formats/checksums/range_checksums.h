// Checksums that a container has of ranges of its files, not of whole ones: those of the tensors and of the blocks in
// checkpoints of TensorFlow. Reads do not compare them, because a read is of a part of a range; `weightfs verify` does.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/source.h"

namespace weightfs {

/// The CRC-32C whose masked form is this number: LevelDB and TensorFlow store no other (crc32c.h of LevelDB).
constexpr uint32_t unmasked_crc32c(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8U;
  return rotated >> 17 | rotated << 15;
}

/// A CRC-32C that is computed in pieces. In a tensor of strings, the lengths before the texts count as numbers.
class RangeSum {
 public:
  /// `lengths`: how many varints the range begins with. Each counts as a number of 4 bytes in this order, or of 8 bytes
  /// if it needs them (ReadStringTensor in tensor_bundle.cc of TensorFlow).
  explicit RangeSum(uint64_t lengths = 0, std::endian order = std::endian::little) : lengths_(lengths), order_(order) {}

  void update(std::span<const std::byte> bytes);
  uint32_t crc32c() const { return crc_; }

 private:
  void add_number(uint64_t number);

  uint64_t lengths_;  // that are left
  std::endian order_;
  uint64_t number_ = 0;  // of the length that has begun
  uint32_t shift_ = 0;
  uint32_t crc_ = 0;
};

/// A range of a file, and its checksum.
struct RangeChecksum {
  static constexpr uint32_t kNoTensor = UINT32_MAX;

  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t lengths = 0;         ///< see RangeSum
  uint32_t crc32c = 0;          ///< not used if RangeChecksums::is_table
  uint32_t tensor = kNoTensor;  ///< its index in the model
};

/// The checksums of ranges of one file, which may overlap.
struct RangeChecksums {
  std::endian order = std::endian::little;  ///< of lengths
  bool is_table = false;                    ///< behind each range are four bytes: its masked CRC-32C
  std::vector<RangeChecksum> ranges = {};

  /// The bytes of all ranges, but no more than a file of this size has.
  uint64_t bytes_in_ranges(uint64_t size) const;
};

/// The checksum of all of a source.
Result<uint32_t> crc32c_of(const Source& source, RangeSum sum);

/// Computes the checksums of the ranges of `file`, which is read once, in order. Calls `on_bytes` with the number of
/// bytes that were read, and `on_sum` with each range, its stored checksum and that of its bytes. Fails as reads do,
/// and with unsupported if the ranges have more than twice the bytes of the file, and 64 MB.
Result<void> each_range_sum(const Source& file, const RangeChecksums& stored,
                            const std::function<void(uint64_t count)>& on_bytes,
                            const std::function<void(const RangeChecksum&, uint32_t stored, uint32_t found)>& on_sum);

}  // namespace weightfs
