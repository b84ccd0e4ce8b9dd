// Reads the fields of one metadata block of an HDF5 file, and its checksums. The superblock gives the number of bytes
// of an address and of a length.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "base/values/little_endian.h"

namespace weightfs::hdf5 {

/// The address of something that was never stored: all bits set, whatever the size of an address.
inline constexpr uint64_t kUndefined = ~uint64_t{0};

/// The bytes of the checksum at the end of a metadata block since version 2.
inline constexpr uint64_t kChecksum = 4;

/// The number of bytes of an address and of a length: 2, 4 or 8.
struct Sizes {
  uint32_t address = 8;
  uint32_t length = 8;
};

/// Bounds-checked and sequential; all numbers are little-endian. The block outlives it. Methods fail with corrupt at
/// the end of the block.
class Fields {
 public:
  Fields(std::string_view block, Sizes sizes) : block_(block), sizes_(sizes) {}

  /// A number of 0 to 8 bytes.
  Result<uint64_t> number(size_t bytes);
  Result<uint64_t> length() { return number(sizes_.length); }

  /// An address, or kUndefined.
  Result<uint64_t> address();

  Result<std::string_view> text(uint64_t size);
  Result<void> skip(uint64_t size);

  /// A text that ends with a NUL byte, which is skipped.
  Result<std::string_view> terminated();

  /// Skips up to the next multiple of 8 bytes from the beginning of the block.
  Result<void> align();

  /// Fails with corrupt unless the next bytes are `signature` and `version`.
  Result<void> expect(std::string_view signature, uint8_t version);

  uint64_t position() const { return at_; }
  uint64_t left() const { return block_.size() - at_; }
  Sizes sizes() const { return sizes_; }

 private:
  std::string_view block_;
  Sizes sizes_;
  size_t at_ = 0;
};

/// The exponent of a power of two; 0 for 0.
constexpr uint64_t log2_of(uint64_t power) { return power == 0 ? 0 : static_cast<uint64_t>(std::bit_width(power)) - 1; }

/// Bob Jenkins' lookup3 hash, the checksum of metadata since version 2.
uint32_t lookup3(std::string_view bytes);

/// Fails with corrupt unless the last four bytes of `block` are the checksum of those before them.
Result<void> check_sum(std::string_view block, std::string_view what);

/// HDF5's Fletcher-32 checksum: of big-endian words of 16 bits.
uint32_t fletcher32(std::string_view bytes);

/// The number of bytes that HDF5 takes to store numbers up to `limit`.
uint32_t bytes_for(uint64_t limit);

}  // namespace weightfs::hdf5
