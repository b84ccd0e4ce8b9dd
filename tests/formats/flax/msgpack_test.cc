#include "formats/flax/msgpack.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightfs::flax::msgpack_test {
namespace {

using testing::HasSubstr;

std::string token_of(std::string_view bytes) {
  const SourcePtr source = in_memory(std::string(bytes));
  Cursor in(*source, 0, source->size(), std::endian::big);
  const auto token = read_token(in);
  if (!token) return "error: " + token.error().message;
  return fmt::format("{} {} {} {} {} at {}", static_cast<int>(token->kind), token->integer, token->number, token->real,
                     token->extension, in.position());
}

std::string bytes(std::initializer_list<int> values, size_t more = 0) {
  std::string out;
  for (const int value : values) out += static_cast<char>(value);
  return out + std::string(more, 'x');
}

TEST(Msgpack, ReadsScalars) {
  EXPECT_EQ(token_of(bytes({0xC0})), "0 0 0 0 0 at 1");
  EXPECT_EQ(token_of(bytes({0xC3})), "1 1 0 0 0 at 1");
  EXPECT_EQ(token_of(bytes({0x7F})), "3 0 127 0 0 at 1");
  EXPECT_EQ(token_of(bytes({0xE0})), "2 -32 0 0 0 at 1");
  EXPECT_EQ(token_of(bytes({0xCC, 0xFF})), "3 0 255 0 0 at 2");
  EXPECT_EQ(token_of(bytes({0xCD, 1, 0})), "3 0 256 0 0 at 3");
  EXPECT_EQ(token_of(bytes({0xCE, 1, 0, 0, 0})), "3 0 16777216 0 0 at 5");
  EXPECT_EQ(token_of(bytes({0xCF, 255, 255, 255, 255, 255, 255, 255, 255})), "3 0 18446744073709551615 0 0 at 9");
  EXPECT_EQ(token_of(bytes({0xD0, 0x80})), "2 -128 0 0 0 at 2");
  EXPECT_EQ(token_of(bytes({0xD1, 0x80, 0})), "2 -32768 0 0 0 at 3");
  EXPECT_EQ(token_of(bytes({0xD2, 0xFF, 0xFF, 0xFF, 0xFE})), "2 -2 0 0 0 at 5");
  EXPECT_EQ(token_of(bytes({0xD3, 0, 0, 0, 0, 0, 0, 0, 5})), "2 5 0 0 0 at 9");
  EXPECT_EQ(token_of(bytes({0xCA, 0x3F, 0x80, 0, 0})), "4 0 0 1 0 at 5");
  EXPECT_EQ(token_of(bytes({0xCB, 0x3F, 0xE0, 0, 0, 0, 0, 0, 0})), "4 0 0 0.5 0 at 9");
}

TEST(Msgpack, ReadsLengths) {
  EXPECT_EQ(token_of(bytes({0xA2}, 2)), "5 0 2 0 0 at 1");
  EXPECT_EQ(token_of(bytes({0xD9, 3}, 3)), "5 0 3 0 0 at 2");
  EXPECT_EQ(token_of(bytes({0xDA, 1, 0}, 256)), "5 0 256 0 0 at 3");
  EXPECT_EQ(token_of(bytes({0xDB, 0, 0, 0, 1}, 1)), "5 0 1 0 0 at 5");
  EXPECT_EQ(token_of(bytes({0xC4, 3}, 3)), "6 0 3 0 0 at 2");
  EXPECT_EQ(token_of(bytes({0xC5, 1, 0}, 256)), "6 0 256 0 0 at 3");
  EXPECT_EQ(token_of(bytes({0xC6, 0, 0, 0, 1}, 1)), "6 0 1 0 0 at 5");
  EXPECT_EQ(token_of(bytes({0x92}, 2)), "7 0 2 0 0 at 1");
  EXPECT_EQ(token_of(bytes({0xDC, 0, 2}, 2)), "7 0 2 0 0 at 3");
  EXPECT_EQ(token_of(bytes({0xDD, 0, 0, 0, 2}, 2)), "7 0 2 0 0 at 5");
  EXPECT_EQ(token_of(bytes({0x81}, 2)), "8 0 1 0 0 at 1");
  EXPECT_EQ(token_of(bytes({0xDE, 0, 1}, 2)), "8 0 1 0 0 at 3");
  EXPECT_EQ(token_of(bytes({0xDF, 0, 0, 0, 1}, 2)), "8 0 1 0 0 at 5");
  EXPECT_EQ(token_of(bytes({0xD4, 1}, 1)), "9 0 1 0 1 at 2");
  EXPECT_EQ(token_of(bytes({0xD8, 0xFF}, 16)), "9 0 16 0 -1 at 2");
  EXPECT_EQ(token_of(bytes({0xC7, 2, 1}, 2)), "9 0 2 0 1 at 3");
  EXPECT_EQ(token_of(bytes({0xC8, 0, 2, 1}, 2)), "9 0 2 0 1 at 4");
  EXPECT_EQ(token_of(bytes({0xC9, 0, 0, 0, 2, 1}, 2)), "9 0 2 0 1 at 6");
}

TEST(Msgpack, RefusesLengthsBeyondTheEnd) {
  for (const auto& token :
       {bytes({0xA2}, 1), bytes({0xDB, 255, 255, 255, 255}, 9), bytes({0xC6, 255, 255, 255, 255}, 9),
        bytes({0xC9, 255, 255, 255, 255, 1}, 9), bytes({0x92}, 1), bytes({0xDD, 255, 255, 255, 255}, 9),
        bytes({0x81}, 1), bytes({0xDF, 255, 255, 255, 255}, 9), bytes({0xD8, 1}, 15)})
    EXPECT_THAT(token_of(token), HasSubstr("error: a length of ")) << token;
  for (const auto& token : {bytes({}), bytes({0xCF, 1}), bytes({0xDF, 1}), bytes({0xC9, 0, 0, 0, 1})})
    EXPECT_THAT(token_of(token), HasSubstr("error: ends at byte")) << token;
  EXPECT_EQ(token_of(bytes({0xC1})), "error: byte 0 of the file is C1, which begins nothing");
}

}  // namespace
}  // namespace weightfs::flax::msgpack_test
