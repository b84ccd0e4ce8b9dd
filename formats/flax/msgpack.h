// MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md), one token at a time. Nothing is built: the
// caller skips what it does not need.
#pragma once

#include <cstdint>

#include "formats/common/cursor.h"

namespace weightfs::flax {

/// What begins at a position: a number or another scalar with its value, or the length of what follows.
struct Token {
  enum class Kind {
    nil,
    boolean,
    integer,
    unsigned_integer,
    real,
    text,
    binary,
    array,
    map,
    extension
  } kind = Kind::nil;
  int64_t integer = 0;  ///< of a boolean and an integer
  uint64_t number = 0;  ///< an unsigned integer; the bytes of a text, a binary or an extension; the entries of a list
  double real = 0;
  int8_t extension = 0;  ///< the type of an extension
};

/// Reads the next token; the cursor is then at the bytes of a text, binary or extension, or at the first entry of an
/// array or map. A length or count is not larger than the bytes that are left. Fails with corrupt.
Result<Token> read_token(Cursor& in);

/// The bytes of a token that follow it in the cursor; 0 for scalars, arrays and maps.
inline uint64_t bytes_after(const Token& token) {
  using Kind = Token::Kind;
  const bool has = token.kind == Kind::text || token.kind == Kind::binary || token.kind == Kind::extension;
  return has ? token.number : 0;
}

}  // namespace weightfs::flax
