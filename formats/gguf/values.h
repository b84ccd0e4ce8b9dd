// The values of GGUF's metadata: short ones are read into memory, long ones are located and rendered from the file
// later.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/budget.h"
#include "base/values/value.h"
#include "formats/common/cursor.h"

namespace weightfs::gguf {

/// gguf_type (gguf.h), which precedes each value.
enum class ValueType : uint32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};

/// The maximum nesting depth of arrays. ggml allows one level, gguf-py any.
inline constexpr int kMaxArrayDepth = 16;

/// The name of a type in a summary: "string", "float32".
std::string_view name_of(ValueType type);

/// The version and byte order, from the first eight bytes of a file.
struct Dialect {
  uint32_t version;   ///< 1 to 3
  std::endian order;  ///< of all numbers, tensor data included

  /// The size of a count or a length: 32 bits in version 1, else 64.
  uint64_t count_size() const { return version == 1 ? 4 : 8; }
};

/// Reads a count or length.
Result<uint64_t> read_count(Cursor& cursor, const Dialect& dialect);

/// Reads a string into `out`: its length, then its bytes. Fails with corrupt if it is longer than `longest`.
Result<void> read_string(Cursor& cursor, const Dialect& dialect, uint64_t longest, std::string& out);

/// A value of the metadata: its place in the file and, if it is short, its content.
struct StoredValue {
  ValueType type;
  ValueType element_type;         ///< of an array; else the same as `type`
  uint64_t elements = 0;          ///< of an array: the elements of all arrays in it, and the arrays themselves
  uint64_t begin = 0;             ///< offset of the value, after its type
  uint64_t end = 0;               ///< offset of the next byte
  std::optional<Value> value;     ///< nothing if it is too long to be kept
  bool has_invalid_bool = false;  ///< it has a bool other than 0 and 1
  bool has_invalid_text = false;  ///< it has a string that is not UTF-8
};

/// Reads the next value, its type first. A value with more than kMaxInlineList elements, or over `room` bytes of
/// memory, is skipped and not kept; `room` is reduced by what is kept. A float32 becomes the double of its shortest
/// decimal, so that 1e-6 is shown as 1e-06. Fails with corrupt on a truncated value and with unsupported on an unknown
/// type. Skipped elements cost time, which is charged first.
Result<StoredValue> read_value(Cursor& cursor, const Dialect& dialect, uint64_t& room, Budget& budget);

/// Renders a value that read_value located in `source` as JSON, one element per line, by the rules of to_json. Its size
/// is computed and charged first.
Result<std::string> render_json(const Source& source, const Dialect& dialect, const StoredValue& stored,
                                Budget& budget);

}  // namespace weightfs::gguf
