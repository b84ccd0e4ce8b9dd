// Functions for members of a zip: stored ranges, digests and the cost of decoding.
#pragma once

#include <optional>
#include <string>

#include "base/budget.h"
#include "formats/codec/codec_meter.h"
#include "formats/model.h"

namespace weightfs::archive {

/// Sets the digest of the part as the expected digest of a compressed member of a zip. Call it before the first read.
/// Other sources, and parts without a digest, are unchanged.
void expect_digest(const Part& part);

/// The supported compression methods, by their numbers in APPNOTE 4.4.5.
enum ZipMethod : uint16_t { kStored = 0, kDeflate = 8, kZstd = 93 };

/// The stored bytes of a member and their compression method. Members may share them.
struct StoredRange {
  Slice bytes;
  uint16_t method;  ///< a ZipMethod
  uint64_t size;    ///< of the decoded bytes, from the directory
  uint32_t crc32;   ///< of the decoded bytes, from the directory
};

/// The compression method of a member of a zip, from the directory; nothing for any other source. Reads nothing.
std::optional<uint16_t> method_of(const Source& source);

/// The stored range of a member of a zip; nothing for any other source. Fails with corrupt and unsupported if the
/// member cannot be read, and as reading its header does.
Result<std::optional<StoredRange>> stored_range_of(const Source& source);

/// The cost of decoding the beginning of a member.
struct HeadCost {
  uint64_t input = 0;   ///< bytes read
  uint64_t output = 0;  ///< bytes decoded
  uint64_t empty = 0;   ///< bytes of input that decoded to nothing
};

/// Charges `cost` to a budget.
Result<void> charge_head(Budget& budget, const HeadCost& cost);

/// The first `most` bytes, or all if there are fewer, that a range decodes to, independent of the size and the CRC-32
/// in the directory. Takes bounded time: fails with corrupt if much input at the beginning decodes to nothing.
Result<std::string> read_head(const StoredRange& range, size_t most, HeadCost& cost);

/// The first `most` bytes of a member of an archive, without decoding more of it than read_head() does. Charges
/// `budget`. Fails as stored_range_of(), read_head() and the budget do.
Result<std::string> member_head(const Source& member, size_t most, Budget& budget);

/// The bytes of `source` for a parser: decoding them is charged to `charge` while it is active.
Result<SourcePtr> bytes_to_parse(const SourcePtr& source, const codec::DecodeChargePtr& charge);

}  // namespace weightfs::archive
