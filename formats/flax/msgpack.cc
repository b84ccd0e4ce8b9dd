#include "formats/flax/msgpack.h"

#include <fmt/core.h>

#include "base/values/value.h"

namespace weightfs::flax {
namespace {

using Kind = Token::Kind;

// A length or count of `width` bytes.
Result<uint64_t> read_length(Cursor& in, int width) {
  if (width == 1) return TRY(in.number<uint8_t>());
  if (width == 2) return TRY(in.number<uint16_t>());
  return TRY(in.number<uint32_t>());
}

// A token with this length. Each entry takes a byte at least, and of a map two.
Result<Token> sized(Cursor& in, Kind kind, uint64_t length) {
  const uint64_t smallest = kind == Kind::map ? 2 : 1;
  if (length > in.left() / smallest)
    return failure(Code::corrupt,
                   fmt::format("a length of {} at byte {}, where {} bytes are left", length, in.position(), in.left()));
  return Token{.kind = kind, .number = length};
}

Result<Token> extension(Cursor& in, uint64_t length) {
  const auto type = TRY(in.number<int8_t>());
  Token token = TRY(sized(in, Kind::extension, length));
  token.extension = type;
  return token;
}

template <class T>
Result<Token> signed_number(Cursor& in) {
  return Token{.kind = Kind::integer, .integer = TRY(in.number<T>())};
}

template <class T>
Result<Token> unsigned_number(Cursor& in) {
  return Token{.kind = Kind::unsigned_integer, .number = TRY(in.number<T>())};
}

// The tokens with a first byte of their own, C0 to DF.
Result<Token> read_marked(Cursor& in, uint8_t mark) {
  constexpr uint8_t kBin8 = 0xC4, kExt8 = 0xC7, kFixExt1 = 0xD4, kStr8 = 0xD9, kArray16 = 0xDC, kMap16 = 0xDE;
  const auto width = [&](uint8_t first) { return 1 << (mark - first); };
  switch (mark) {
    case 0xC0:
      return Token{};
    case 0xC2:
    case 0xC3:
      return Token{.kind = Kind::boolean, .integer = mark == 0xC3};
    case 0xC4:
    case 0xC5:
    case 0xC6:
      return sized(in, Kind::binary, TRY(read_length(in, width(kBin8))));
    case 0xC7:
    case 0xC8:
    case 0xC9:
      return extension(in, TRY(read_length(in, width(kExt8))));
    case 0xCA:
      return Token{.kind = Kind::real, .real = shortest_decimal(TRY(in.number<float>()))};
    case 0xCB:
      return Token{.kind = Kind::real, .real = TRY(in.number<double>())};
    case 0xCC:
      return unsigned_number<uint8_t>(in);
    case 0xCD:
      return unsigned_number<uint16_t>(in);
    case 0xCE:
      return unsigned_number<uint32_t>(in);
    case 0xCF:
      return unsigned_number<uint64_t>(in);
    case 0xD0:
      return signed_number<int8_t>(in);
    case 0xD1:
      return signed_number<int16_t>(in);
    case 0xD2:
      return signed_number<int32_t>(in);
    case 0xD3:
      return signed_number<int64_t>(in);
    case 0xD4:
    case 0xD5:
    case 0xD6:
    case 0xD7:
    case 0xD8:
      return extension(in, uint64_t{1} << (mark - kFixExt1));
    case 0xD9:
    case 0xDA:
    case 0xDB:
      return sized(in, Kind::text, TRY(read_length(in, width(kStr8))));
    case 0xDC:
    case 0xDD:
      return sized(in, Kind::array, TRY(read_length(in, 2 << (mark - kArray16))));
    case 0xDE:
    case 0xDF:
      return sized(in, Kind::map, TRY(read_length(in, 2 << (mark - kMap16))));
    default:
      return failure(Code::corrupt,
                     fmt::format("byte {} of the file is {:02X}, which begins nothing", in.position() - 1, mark));
  }
}

}  // namespace

Result<Token> read_token(Cursor& in) {
  const auto mark = TRY(in.number<uint8_t>());
  if (mark < 0x80) return Token{.kind = Kind::unsigned_integer, .number = mark};
  if (mark < 0x90) return sized(in, Kind::map, mark & 0x0FU);
  if (mark < 0xA0) return sized(in, Kind::array, mark & 0x0FU);
  if (mark < 0xC0) return sized(in, Kind::text, mark & 0x1FU);
  if (mark < 0xE0) return read_marked(in, mark);
  return Token{.kind = Kind::integer, .integer = static_cast<int8_t>(mark)};
}

}  // namespace weightfs::flax
