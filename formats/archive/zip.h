// What only members of a zip can be told and asked.
#pragma once

#include <optional>
#include <string>

#include "base/budget.h"
#include "formats/codec/codec_meter.h"
#include "formats/model.h"

namespace weightfs {

/// Tells a compressed member of a zip that its bytes must have the part's digest. Before it is first read; sources that
/// are no members of a zip, and parts without a digest, are left as they are.
void expect_digest(const Part& part);

/// The methods that are read, as APPNOTE 4.4.5 numbers them.
enum ZipMethod : uint16_t { kStored = 0, kDeflate = 8, kZstd = 93 };

/// Where the bytes of a member lie as they are stored, and how. Members may share them.
struct StoredRange {
  Slice bytes;
  uint16_t method;  ///< a ZipMethod
  uint64_t size;    ///< decoded, as the directory has it
};

/// The range of a member of a zip; nothing for any other source. Fails with corrupt and unsupported when the member
/// cannot be read, and as reading its header does.
Result<std::optional<StoredRange>> stored_range_of(const Source& source);

/// What reading the beginning of a member took.
struct HeadCost {
  uint64_t input = 0;   ///< bytes that were read
  uint64_t output = 0;  ///< bytes that came out
  uint64_t empty = 0;   ///< bytes of the input that decoded to nothing
};

/// Charges a budget for that.
Result<void> charge_head(Budget& budget, const HeadCost& cost);

/// The first `most` bytes, or all if there are fewer, of what a range decodes to: whatever the directory has for its
/// size and its CRC-32. Takes bounded time: fails with corrupt where the range begins with much that decodes to
/// nothing.
Result<std::string> read_head(const StoredRange& range, size_t most, HeadCost& cost);

/// The bytes of `source` for a parser: where they are decoded, `charge` pays as long as it is active.
Result<SourcePtr> bytes_to_parse(const SourcePtr& source, const DecodeChargePtr& charge);

}  // namespace weightfs
