// The values of GGUF's metadata: read into memory when short, found and rendered from the file later when long.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/budget.h"
#include "base/values/value.h"
#include "formats/common/cursor.h"

namespace weightfs::gguf {

/// gguf_type (gguf.h): what stands before a value.
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

/// Arrays in arrays in arrays... up to this depth. ggml takes one level, gguf-py any.
inline constexpr int kDeepestArray = 16;

/// The name of a type in a summary: "string", "float32".
std::string_view name_of(ValueType type);

/// What the first eight bytes of a file say about the rest.
struct Dialect {
  uint32_t version;   ///< 1 to 3
  std::endian order;  ///< of every number, the tensors' values included

  /// The bytes of a count or a length: version 1 has them in 32 bits.
  uint64_t count_size() const { return version == 1 ? 4 : 8; }
};

/// The next count or length.
Result<uint64_t> read_count(Cursor& cursor, const Dialect& dialect);

/// The next string: its length, then its bytes. Fails with corrupt if it is longer than `longest`.
Result<std::string> read_string(Cursor& cursor, const Dialect& dialect, uint64_t longest);

/// A value of the metadata: where it lies and, if it is short, what it is.
struct StoredValue {
  ValueType type;
  ValueType element_type;      ///< of an array; else the same as `type`
  uint64_t elements = 0;       ///< of an array: of all arrays in it too, and these themselves
  uint64_t begin = 0;          ///< offset of the value, after its type
  uint64_t end = 0;            ///< offset of what follows it
  std::optional<Value> value;  ///< nothing when it is too long to be kept
  bool strange_bool = false;   ///< a bool in it is neither 0 nor 1
  bool strange_text = false;   ///< a string in it is not UTF-8
};

/// Reads the value that follows, its type first. A value with more than kLongestInlineList elements, or that would take
/// more than `room` bytes of memory, is walked over and not kept; `room` shrinks by what is kept. A float32 becomes the
/// double nearest to its shortest decimal, so that 1e-6 is shown as 1e-06. Fails with corrupt on a value that is not
/// whole and with unsupported on a type that is not known.
/// Elements that are walked over cost time, which is charged before they are.
Result<StoredValue> read_value(Cursor& cursor, const Dialect& dialect, uint64_t& room, Budget& budget);

/// The JSON of a value that read_value found in `source`, one element per line, by the rules of to_json. Its size is
/// known and charged before it is built.
Result<std::string> render_json(const Source& source, const Dialect& dialect, const StoredValue& stored,
                                Budget& budget);

}  // namespace weightfs::gguf
