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
#include "formats/pytorch/arena.h"

namespace weightfs::pytorch {

/// The maximum size of a pickle, in bytes. Those of checkpoints are below 10 MiB.
inline constexpr uint64_t kMaxPickleSize = 64 << 20;

/// Longer texts are not kept: only their length is known. Arrays of NumPy are such texts.
inline constexpr uint64_t kMaxText = 32 << 10;

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
  list,
  tuple,
  set,
  dict,        ///< its items are alternately a key and a value
  global,      ///< a name in a module, which unpickling would import
  call,        ///< an object that unpickling would create by calling something
  persistent,  ///< an object outside of the pickle, by its identifier
};

/// The parts of a call; kNoValue for those that it lacks.
struct Call {
  Index callable;
  Index arguments;
  Index state;  ///< given to __setstate__, or the attributes
  Index list;   ///< values appended to the object
  Index dict;   ///< items set in the object
};

/// The values of a pickle, in one arena. They may form cycles, and many values may share one.
class Pickle {
 public:
  Kind kind(Index value) const { return nodes_[value].kind; }
  Index root() const { return root_; }

  /// The value of a boolean or an integer; nothing for other kinds.
  std::optional<int64_t> integer(Index value) const;
  double real(Index value) const;

  /// The content of a text or of bytes, or the digits of a big integer; empty for other kinds, and if it is not kept.
  std::string_view text(Index value) const;
  /// Its size in bytes, even if it is not kept.
  uint64_t length(Index value) const { return nodes_[value].number; }

  /// "module.name" of a global, else empty. A part that is computed while unpickling is `?`.
  std::string_view global(Index value) const;
  const std::vector<std::string>& globals() const { return globals_; }  ///< all, in the order of their first use

  Call call(Index value) const;
  Index identifier(Index persistent) const { return nodes_[persistent].a; }
  const std::vector<Index>& persistent() const { return persistent_; }  ///< all values of that kind

  /// The first `most` items of a list, tuple, set or dict; empty for other kinds.
  std::vector<Index> items(Index value, size_t most = SIZE_MAX) const;
  uint32_t item_count(Index value) const { return is_container(value) ? nodes_[value].c : 0; }
  size_t size() const { return nodes_.size(); }  ///< number of values

 private:
  friend class PickleReader;
  explicit Pickle(Budget& budget) : charges_(budget) {}

  // Containers: a is the first item, b the last, c their number. Text: `text`, and its length is `number`. Call: a is
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

  bool is_container(Index value) const { return kind(value) >= Kind::list && kind(value) <= Kind::dict; }

  Charges charges_;
  Arena<Node> nodes_;
  Arena<Item> items_;
  std::vector<std::unique_ptr<char[]>> texts_;
  std::vector<std::string> globals_;
  std::vector<Index> persistent_;
  Index root_ = kNoValue;
};

/// Reads a pickle up to its STOP; the cursor is behind it then. Fails with corrupt on an opcode without its operands,
/// and where unpickling would fail for lack of a value; with unsupported on opcodes for extensions and out-of-band
/// buffers, on too many nested values, and beyond kMaxPickleSize; and as the budget does, which is charged as long as
/// the Pickle exists.
Result<Pickle> read_pickle(Cursor& cursor, Budget& budget);

}  // namespace weightfs::pytorch
