// Reads Protocol Buffers messages from a Source without a schema. Only tags, lengths and requested values are read;
// everything else is skipped by its offset, so a file of many gigabytes is indexed at the cost of its structure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/source.h"

namespace weightfs::protobuf {

/// The encoding of a field's value, the lowest three bits of its tag.
enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, group_begin = 3, group_end = 4, fixed32 = 5 };

/// The maximum nesting depth of messages and groups below the outermost message: the limit of Google's own readers.
inline constexpr int kMaxNesting = 100;

/// The tag of a field: its number and its encoding. A field of a known number with another encoding is an unknown
/// field, as in Google's readers.
constexpr uint32_t tag(uint32_t number, WireType type) { return number << 3 | static_cast<uint32_t>(type); }

/// The tag of a field with this number and the encoding that the function is named after.
constexpr uint32_t varint(uint32_t number) { return tag(number, WireType::varint); }
constexpr uint32_t bytes(uint32_t number) { return tag(number, WireType::bytes); }
constexpr uint32_t fixed32(uint32_t number) { return tag(number, WireType::fixed32); }
constexpr uint32_t fixed64(uint32_t number) { return tag(number, WireType::fixed64); }

/// A range of the source, in bytes.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
};

/// A message in the source. A singular message field that occurs several times is one message: its ranges are read one
/// after the other.
struct Message {
  std::vector<Range> ranges;
  int depth = 0;  ///< the number of messages around it

  /// Whether the field never occurred. A message without fields has one empty range.
  bool absent() const { return ranges.empty(); }
};

/// A field of a message.
struct Field {
  uint32_t tag = 0;
  uint64_t value = 0;  ///< of a varint, fixed64 or fixed32 field
  Range bytes = {};    ///< of the value
  uint64_t begin = 0;  ///< of the tag

  uint32_t number() const { return tag >> 3; }
  int32_t int32() const { return static_cast<int32_t>(static_cast<uint32_t>(value)); }  ///< the low 32 bits count
};

/// Buffered reads at any offset of a source. Bytes that are read are charged to the budget. Not thread-safe; the source
/// and the budget outlive it.
class Scanner {
 public:
  /// `budget` may be null.
  Scanner(const Source& source, Budget* budget) : source_(source), budget_(budget) {}

  /// The whole source as a message.
  Message whole() const { return {{Range{0, source_.size()}}, 0}; }

  /// Adds the bytes of `field` of `parent` to the message `child`. Fails with unsupported beyond kMaxNesting.
  Result<void> merge(Message& child, const Message& parent, const Field& field) const;

  /// The bytes of `field` of `parent` as a message. Fails as merge() does.
  Result<Message> child(const Message& parent, const Field& field) const;

  /// The text of the field of `message` with this tag, of the last one if there are several; empty if there is none.
  /// Fails as text() and Fields do.
  Result<std::string> text_at(const Message& message, uint32_t tag, uint64_t most);

  /// The message in the fields of `message` with this tag; absent if there are none. Fails as merge() and Fields do.
  Result<Message> message_at(const Message& message, uint32_t tag);

  /// Reads a number of this encoding at `at`, and moves `at` behind it. Fails with corrupt if it does not end at or
  /// before `end`.
  Result<uint64_t> number(uint64_t& at, uint64_t end, WireType type);

  /// Whether the source ends at `offset`.
  bool is_at_end(uint64_t offset) const { return offset == source_.size(); }

  /// Charges the budget for work on what was read.
  Result<void> charge(Cost cost, uint64_t count) {
    return budget_ == nullptr ? Result<void>() : budget_->charge(cost, count);
  }

  /// The bytes of a range as a string. Fails with unsupported if it has more than `most`.
  Result<std::string> text(const Range& range, uint64_t most);

 private:
  Result<uint64_t> varint(uint64_t& at, uint64_t end);
  Result<const uint8_t*> bytes_at(uint64_t at, uint64_t size);

  const Source& source_;
  Budget* budget_;
  uint64_t begin_ = 0;  // offset of buffer_[0] in the source
  std::vector<uint8_t> buffer_;
};

/// The fields of a message in the order of the file. Groups are skipped.
class Fields {
 public:
  Fields(Scanner& scanner, const Message& message) : scanner_(scanner), message_(message) {}

  /// The next field; nothing at the end of the message. Fails with corrupt or unsupported.
  Result<std::optional<Field>> next();

  uint64_t position() const { return at_; }  ///< the offset behind the last field

 private:
  Result<void> read_tag(Field& field);
  Result<void> read_value(Field& field);
  Result<void> skip_group(uint32_t number);
  Result<void> too_long(const Field& field, uint64_t size) const;
  Result<void> enter_group(std::vector<uint32_t>& groups, uint32_t number) const;

  Scanner& scanner_;
  const Message& message_;
  size_t next_range_ = 0;
  uint64_t at_ = 0;
  uint64_t end_ = 0;
};

}  // namespace weightfs::protobuf
