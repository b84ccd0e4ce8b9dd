// A passive reader of pickles: the opcodes build a tree of plain values. Nothing is imported or called: a global is its
// name, and a call is the name with its arguments. Reference: Lib/pickletools.py of CPython, protocols 0 to 5.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/common/cursor.h"
#include "formats/pickle/arena.h"
#include "formats/pickle/danger.h"

namespace weightfs::pickle {

/// The maximum size of a pickle without its long texts, in bytes. Those of checkpoints are below 10 MiB.
inline constexpr uint64_t kMaxPickleSize = 64 << 20;

/// Longer texts are not kept: only their place in the file is known. Arrays of NumPy are such texts.
inline constexpr uint64_t kMaxText = 32 << 10;

/// The maximum nesting of pickles that follow an object inside of another pickle.
inline constexpr int kMaxNestedPickles = 8;

/// The place of a value in its Pickle.
using Index = uint32_t;
inline constexpr Index kNoValue = UINT32_MAX;

enum class Kind : uint8_t {
  none,
  boolean,
  integer,
  big_integer,  ///< beyond 64 bits: a text of its digits
  real,
  text,
  bytes,
  byte_array,  ///< bytes that can be changed
  buffer,      ///< bytes that are in another file
  list,
  tuple,
  set,
  dict,        ///< its items are alternately a key and a value
  global,      ///< a name in a module, which unpickling would import
  call,        ///< an object that unpickling would create by calling something
  persistent,  ///< an object outside of the pickle, by its identifier
};

/// How the file spells the content of a text or of bytes.
enum class Spelling : uint8_t {
  stored,          ///< as it is: UTF-8 for a text
  unicode_escape,  ///< a line of Python's raw-unicode-escape
  string_escape,   ///< a line of Python 2: a quoted string with escapes
};

/// The place of a text or of bytes in the file.
struct Place {
  uint64_t offset;
  uint64_t size;  ///< in bytes, as it is spelled; that of the content for an escaped text that is kept
  Spelling spelling;
};

/// The parts of a call; kNoValue for those that it lacks.
struct Call {
  Index callable;
  Index arguments;
  Index state;  ///< given to __setstate__, or the attributes
  Index list;   ///< values appended to the object
  Index dict;   ///< items set in the object
};

/// The values of a pickle, in one arena. They may form cycles, and many values may share one. kNoValue, a part that a
/// call lacks, is of the kind none, and empty.
class Pickle {
 public:
  Kind kind(Index value) const { return node(value).kind; }
  /// Whether it is of the kinds text, bytes and byte_array.
  bool is_text(Index value) const { return kind(value) >= Kind::text && kind(value) <= Kind::byte_array; }
  Index root() const { return root_; }

  /// The value of a boolean or an integer; nothing for other kinds.
  std::optional<int64_t> integer(Index value) const;
  double real(Index value) const;

  /// The content of a text or of bytes, or the digits of a big integer; empty for other kinds, and if it is not kept.
  std::string_view text(Index value) const;
  /// Its size in bytes, even if it is not kept.
  uint64_t length(Index value) const { return node(value).number; }

  /// Where the content of a text, of bytes or of a byte array is. For other kinds, the size is 0.
  Place place(Index value) const;

  /// "module.name" of a global, else empty. A part that is computed while unpickling is `?`.
  std::string_view global(Index value) const;
  /// The global; null for other kinds.
  const Global* global_of(Index value) const {
    return kind(value) == Kind::global ? &globals_[nodes_[value].a] : nullptr;
  }
  const std::vector<Global>& globals() const { return globals_; }  ///< all, in the order of their first use
  /// The calls of that global. A value of it that is more than called is among them, too: other code may call it.
  std::vector<Index> calls_of(std::string_view global) const;

  Call call(Index value) const;
  Index identifier(Index persistent) const { return nodes_[persistent].a; }
  const std::vector<Index>& persistent() const { return persistent_; }  ///< all values of that kind

  /// The first `most` items of a list, tuple, set or dict; empty for other kinds.
  std::vector<Index> items(Index value, size_t most = SIZE_MAX) const;
  /// The value of a key of a dict, the last one of several; kNoValue if there is none among the first `most` keys and
  /// values.
  Index value_of(Index dict, std::string_view key, size_t most) const;
  uint32_t item_count(Index value) const { return is_container(value) ? nodes_[value].c : 0; }
  size_t size() const { return nodes_.size(); }  ///< number of values

 private:
  friend class PickleReader;
  explicit Pickle(Budget& budget) : charges_(budget) {}

  // Containers: a is the first item, b the last, c their number. Text and bytes: `text` is null if it is not kept, its
  // length is `number`, a and b are its offset in the file, c its Spelling. Call: a is
  // the callable, b the arguments, c the state; `number` has the list and the dict.
  struct Node {
    Kind kind = Kind::none;
    Index a = kNoValue, b = kNoValue, c = 0;
    uint64_t number = 0;
    const char* text = nullptr;
  };
  struct Item {
    Index value, next;
  };

  static const Node kMissing;

  const Node& node(Index value) const { return value == kNoValue ? kMissing : nodes_[value]; }
  bool is_container(Index value) const { return kind(value) >= Kind::list && kind(value) <= Kind::dict; }

  Charges charges_;
  Arena<Node> nodes_;
  Arena<Item> items_;
  std::vector<std::unique_ptr<char[]>> texts_;
  std::vector<Global> globals_;
  std::vector<Index> persistent_;
  Index root_ = kNoValue;
};

/// "module.name", or that of the call that would return the function, with parentheses; "?" for others.
std::string callable_text(const Pickle& pickle, Index callable);

/// What follows an object in the file, between two opcodes: a pickle of its own, or plain bytes.
struct Inline {
  bool is_pickle = false;
  bool has_padding = false;  ///< before plain bytes: a byte with the length of the padding, and the padding
  uint64_t size = 0;         ///< of plain bytes
};

/// Decides what follows an object that has just got its state. joblib puts the bytes of arrays there.
class InlineData {
 public:
  virtual ~InlineData() = default;
  InlineData() = default;
  InlineData(const InlineData&) = delete;
  InlineData& operator=(const InlineData&) = delete;

  /// Nothing if the next opcode follows. Fails with corrupt if the length is not known: no opcode can be found then.
  virtual Result<std::optional<Inline>> after(const Pickle& pickle, Index object) const = 0;
};

/// Reads a pickle up to its STOP; the cursor is behind it then. The state of an object with inline data becomes a
/// tuple: the state, and the bytes or the root of the pickle that follows. Fails with corrupt on an opcode without its
/// operands, where unpickling would fail for lack of a value, and if inline data begin inside of a frame; with
/// unsupported on opcodes for extensions, on later protocols than 5, on too many nested values, and beyond
/// kMaxPickleSize; and as the budget does, which is charged as long as the Pickle exists. An error names the globals
/// before it that can run code: they are run before the error.
Result<Pickle> read_pickle(Cursor& cursor, Budget& budget, const InlineData* inline_data = nullptr);

/// What unpickling would import up to STOP, or up to the opcode where it fails.
struct Imports {
  std::vector<Global> globals;
  bool is_complete = false;  ///< it does not fail; the cursor is behind STOP
  bool has_calls = false;    ///< something was called
  uint64_t lacks = 0;        ///< bytes behind the range that the opcode where it fails needs, at least
};

/// As pickle.load, which knows nothing of inline data. Fails with errors that are not about the bytes, and as the
/// budget does.
Result<Imports> imports_of(Cursor& cursor, Budget& budget);

}  // namespace weightfs::pickle
