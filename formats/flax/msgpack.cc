#include "formats/flax/msgpack.h"

#include <fmt/core.h>

#include <array>
#include <bit>

#include "base/values/value.h"
#include "formats/grouped.h"

namespace weightfs::flax {
namespace {

using Kind = Token::Kind;

// What follows a first byte from C0 to DF: the number or length that is the token, or precedes its bytes.
struct Mark {
  Kind kind;
  uint8_t width = 0;  // of the number in bytes; 0 for none
};

constexpr uint8_t kFirstMark = 0xC0, kUnused = 0xC1, kTrue = 0xC3, kFixExt1 = 0xD4, kFixExt16 = 0xD8;
constexpr auto kMarks = std::to_array<Mark>({
    {Kind::nil},
    {Kind::nil},
    {Kind::boolean},
    {Kind::boolean},
    {Kind::binary, 1},
    {Kind::binary, 2},
    {Kind::binary, 4},
    {Kind::extension, 1},
    {Kind::extension, 2},
    {Kind::extension, 4},
    {Kind::real, 4},
    {Kind::real, 8},
    {Kind::unsigned_integer, 1},
    {Kind::unsigned_integer, 2},
    {Kind::unsigned_integer, 4},
    {Kind::unsigned_integer, 8},
    {Kind::integer, 1},
    {Kind::integer, 2},
    {Kind::integer, 4},
    {Kind::integer, 8},
    {Kind::extension},
    {Kind::extension},
    {Kind::extension},
    {Kind::extension},
    {Kind::extension},
    {Kind::text, 1},
    {Kind::text, 2},
    {Kind::text, 4},
    {Kind::array, 2},
    {Kind::array, 4},
    {Kind::map, 2},
    {Kind::map, 4},
});

Result<uint64_t> read_number(Cursor& in, int width) {
  if (width == 0) return 0;
  if (width == 1) return TRY(in.number<uint8_t>());
  if (width == 2) return TRY(in.number<uint16_t>());
  if (width == 4) return TRY(in.number<uint32_t>());
  return in.number<uint64_t>();
}

int64_t with_sign(uint64_t number, int width) {
  const int unused = 64 - 8 * width;
  return static_cast<int64_t>(number << unused) >> unused;
}

double real_of(uint64_t bits, int width) {
  if (width == sizeof(double)) return std::bit_cast<double>(bits);
  return shortest_decimal(std::bit_cast<float>(static_cast<uint32_t>(bits)));
}

// A token with this length. Each entry takes a byte at least, and of a map two.
Result<Token> sized(Cursor& in, Kind kind, uint64_t length) {
  const uint64_t smallest = kind == Kind::map ? 2 : 1;
  if (length > in.left() / smallest)
    return failure(Code::corrupt,
                   fmt::format("a length of {} at byte {}, {} left", length, in.position(), counted_bytes(in.left())));
  return Token{.kind = kind, .number = length};
}

Result<Token> extension(Cursor& in, uint64_t length) {
  const auto type = TRY(in.number<int8_t>());
  Token token = TRY(sized(in, Kind::extension, length));
  token.extension = type;
  return token;
}

Result<Token> read_marked(Cursor& in, uint8_t mark) {
  if (mark == kUnused)
    return failure(Code::corrupt,
                   fmt::format("byte {} of the file is {:02X}, which begins nothing", in.position() - 1, mark));
  if (mark >= kFixExt1 && mark <= kFixExt16) return extension(in, uint64_t{1} << (mark - kFixExt1));
  const auto [kind, width] = kMarks.at(mark - kFirstMark);
  const uint64_t number = TRY(read_number(in, width));
  switch (kind) {
    case Kind::nil:
      return Token{};
    case Kind::boolean:
      return Token{.kind = kind, .integer = mark == kTrue};
    case Kind::integer:
      return Token{.kind = kind, .integer = with_sign(number, width)};
    case Kind::unsigned_integer:
      return Token{.kind = kind, .number = number};
    case Kind::real:
      return Token{.kind = kind, .real = real_of(number, width)};
    case Kind::extension:
      return extension(in, number);
    default:
      return sized(in, kind, number);
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
