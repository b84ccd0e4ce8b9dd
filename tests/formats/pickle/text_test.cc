// Numbers and texts as pickles spell them.
#include "formats/pickle/text.h"

#include <gtest/gtest.h>

namespace weightfs::pickle::pickle_text_test {
namespace {

TEST(PickleText, DecimalOfIntegersInTwosComplement) {
  EXPECT_EQ(decimal(""), "0");
  EXPECT_EQ(decimal("\x7F"), "127");
  EXPECT_EQ(decimal("\xFF"), "-1");
  EXPECT_EQ(decimal(std::string("\0\x80", 2)), "-32768");
  EXPECT_EQ(decimal(std::string(16, '\0') + "\x01"), "340282366920938463463374607431768211456");
  EXPECT_EQ(decimal(std::string("\0\xCA\x9A\x3B\0", 5)), "1000000000");
}

TEST(PickleText, NumbersMustBeComplete) {
  EXPECT_EQ(parse_integer("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(parse_integer("9223372036854775808"), std::nullopt);
  EXPECT_EQ(parse_integer("1x"), std::nullopt);
  EXPECT_EQ(parse_integer(""), std::nullopt);
  EXPECT_EQ(parse_real("1e3"), 1000.0);
  EXPECT_EQ(parse_real("x"), std::nullopt);
  EXPECT_TRUE(is_decimal("-12345678901234567890"));
  EXPECT_FALSE(is_decimal("-"));
  EXPECT_FALSE(is_decimal("1e3"));
}

TEST(PickleText, UnicodeEscapesBecomeUtf8) {
  EXPECT_EQ(unescape_unicode("a\\u00e9\xE9"), "aéé");
  EXPECT_EQ(unescape_unicode("\\U0001F600\\u20ac"), "😀€");
  EXPECT_EQ(unescape_unicode("\\u12\\U00110000\\x"), "\\u12\\U00110000\\x");
  EXPECT_EQ(unescape_unicode("\\ud800"), "\xED\xA0\x80");
}

TEST(PickleText, QuotesAreRemovedInPairs) {
  EXPECT_EQ(unquote("'a'"), "a");
  EXPECT_EQ(unquote("\"a\""), "a");
  EXPECT_EQ(unquote("'a\""), "'a\"");
  EXPECT_EQ(unquote("'"), "'");
}

// codecs.escape_decode() of CPython.
TEST(PickleText, EscapesOfStringsBecomeBytes) {
  EXPECT_EQ(unquote(R"('o\\x73')"), R"(o\x73)");
  EXPECT_EQ(unquote(R"('o\x73')"), "os");
  EXPECT_EQ(unquote(R"('\157s')"), "os");
  EXPECT_EQ(unquote(R"('\1577')"), "o7");
  EXPECT_EQ(unquote(R"('\0')"), std::string(1, '\0'));
  EXPECT_EQ(unquote(R"('\8\q')"), R"(\8\q)");
  EXPECT_EQ(unquote(R"('\777')"), "\xFF");
  EXPECT_EQ(unquote(R"("\'\"\\\a\b\f\n\r\t\v")"), "'\"\\\a\b\f\n\r\t\v");
  EXPECT_EQ(unquote(R"('\')"), std::nullopt);
  EXPECT_EQ(unquote(R"('\x7')"), std::nullopt);
  EXPECT_EQ(unquote(R"('\xg0')"), std::nullopt);
  EXPECT_EQ(unquote(R"('\x-1')"), std::nullopt);
}

}  // namespace
}  // namespace weightfs::pickle::pickle_text_test
