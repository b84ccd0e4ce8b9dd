// A Python literal, as the header of a .npy file is one: strings, integers, True, False, None, tuples, lists, a dict.
// Nothing is evaluated: calls, operators and names are refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/budget.h"

namespace weightfs::numpy {

struct Literal;

/// A tuple or a list.
struct Sequence {
  enum class Kind { tuple, list } kind;
  std::vector<Literal> items;
};

/// Keys and values in the order of the text; a key may appear repeatedly.
using Dict = std::vector<std::pair<std::string, Literal>>;

struct None {};

/// Text is UTF-8, or any bytes if the literal has escapes.
struct Literal : std::variant<None, bool, int64_t, std::string, Sequence, Dict> {
  using variant::variant;
};

/// The maximum nesting depth of a literal. A structured type takes two levels for each level of structure.
inline constexpr int kMaxLiteralDepth = 32;

/// Parses the only literal in `text`, which is UTF-8. White space, trailing commas, the prefixes `u` and `b` of strings
/// and the suffix `L` of Python 2's integers are accepted; comments, floats, and integers beyond 64 bits are not. Every
/// value is charged to `charges`. Fails with corrupt, naming the byte, and as the budget does.
Result<Literal> parse_literal(std::string_view text, Charges& charges);

/// The literal as Python's repr() writes it, on one line, for users to read: cut after about `most` bytes.
std::string to_python(const Literal& literal, size_t most);

}  // namespace weightfs::numpy
