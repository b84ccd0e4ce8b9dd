// The numbers of a repeated field as the bytes of a tensor. A writer may pack them into one chunk, into several, store
// each behind its own tag, or mix these; varints have no fixed size. So the bytes are computed when they are read.
#pragma once

#include "formats/protobuf/scanner.h"

namespace weightfs::protobuf {

/// A repeated field of numbers.
struct NumbersField {
  Message message;  ///< that has the field
  uint32_t number;  ///< of the field
  WireType type;    ///< of each number: varint, fixed32 or fixed64
};

/// How a repeated field of numbers is stored. Add its occurrences in the order of the file.
struct NumbersLayout {
  uint64_t single = 0;       ///< numbers with a tag of their own
  uint64_t chunks = 0;       ///< packed chunks that are not empty
  uint64_t chunk_bytes = 0;  ///< bytes of all chunks
  Range last_chunk = {};

  void add_single() { ++single; }
  void add_chunk(const Range& chunk);

  bool absent() const { return single == 0 && chunks == 0; }

  /// The range of all numbers if they are one run of bytes.
  std::optional<Range> contiguous() const;

  /// Whether the field can have `count` numbers of this type. Numbers of a fixed size are counted exactly; for varints
  /// the bytes set bounds.
  bool can_have(uint64_t count, WireType type) const;
};

/// The layout of a field. Fails as Scanner does.
Result<NumbersLayout> read_layout(Scanner& scanner, const NumbersField& field);

/// The number of numbers in a field. Reads all of it. Fails as Scanner does.
Result<uint64_t> count_numbers(Scanner& scanner, const NumbersField& field);

/// Whether a field has this number. Reads all of it. Fails as Scanner does.
Result<bool> has_number(Scanner& scanner, const NumbersField& field, uint64_t wanted);

/// The bytes of packed varints that are counted when a model is listed, over all tensors. Those beyond are counted by
/// the reads of their tensor.
inline constexpr uint64_t kMaxCounted = 1 << 20;

/// The numbers of a field as a tensor of `size` bytes: the lowest `width` bytes of each. They are a slice of the file
/// where they are contiguous, else computed on read. Varints are counted while `countable` bytes are left, which is
/// reduced. Fails with corrupt if their count does not match the size, and as Scanner does.
Result<Slice> numbers_as_bytes(const SourcePtr& file, const NumbersField& field, const NumbersLayout& layout,
                               uint64_t size, uint32_t width, Scanner& scanner, uint64_t& countable);

/// The lowest `width` bytes of each of `count` numbers, little-endian. Reads of the last number, and of those that are
/// missing, fail with io if the field has another count. Reads extend an index of the numbers: 24 bytes for each 1,024
/// numbers that were passed.
SourcePtr number_bytes(SourcePtr source, NumbersField field, uint64_t count, uint32_t width);

}  // namespace weightfs::protobuf
