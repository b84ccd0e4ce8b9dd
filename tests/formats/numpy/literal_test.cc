#include "formats/numpy/literal.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightfs::numpy::literal_test {
namespace {

using testing::HasSubstr;

std::string parsed(std::string_view text, size_t most = 1000) {
  Budget budget(0);
  Charges charges(budget);
  const auto literal = parse_literal(text, charges);
  return literal ? to_python(*literal, most) : "error: " + literal.error().message;
}

TEST(NumpyLiteral, ReadsEveryKindOfValue) {
  EXPECT_EQ(parsed("('a', \"b\", 0, -7, True, False, None, (), [], (1,), [1, 2])"),
            "('a', 'b', 0, -7, True, False, None, (), [], (1,), [1, 2])");
  EXPECT_EQ(parsed(" \n\t(1 ,\r\n 2 , ) \f\n"), "(1, 2)");
  EXPECT_EQ(parsed("(1)"), "1");
  EXPECT_EQ(parsed("((1,))"), "(1,)");
  EXPECT_EQ(parsed("[{'a': 1}]"), "[{...}]");
  EXPECT_EQ(parsed("9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(parsed("-9223372036854775808"), "-9223372036854775808");
}

TEST(NumpyLiteral, ReadsWhatPython2Wrote) {
  EXPECT_EQ(parsed("(3L, 4l)"), "(3, 4)");
  EXPECT_EQ(parsed("[u'a', b'b', U'c', B\"d\"]"), "['a', 'b', 'c', 'd']");
}

TEST(NumpyLiteral, ReadsEscapes) {
  EXPECT_EQ(parsed(R"('\\\'\"\x41\u00e9\U0001F600')"), "'\\\\\\'\"A\u00e9\U0001F600'");
  EXPECT_EQ(parsed(R"('\n\t\x00\x7f')"), R"('\x0a\x09\x00\x7f')");
  EXPECT_EQ(parsed(R"('\q')"), R"('\\q')");
}

TEST(NumpyLiteral, RefusesWhatIsNoLiteral) {
  for (const char* text : {"",
                           " ",
                           "x",
                           "open('f')",
                           "1+1",
                           "(1*2, 3)",
                           "1.0",
                           "1e3",
                           "0x10",
                           "1_000",
                           "1j",
                           "-",
                           "--1",
                           "- 1",
                           "+1",
                           "L",
                           "'a",
                           "'a\n'",
                           "'a' 'b'",
                           "'''a'''",
                           "r'a'",
                           "(1",
                           "(,)",
                           "[1,,2]",
                           "[1 2]",
                           "{1: 2}",
                           "{'a'}",
                           "{'a': 1",
                           "{'a' 1}",
                           "(1]",
                           "1 # comment",
                           "1, 2",
                           "True1",
                           "None()",
                           "'\\N{BULLET}'",
                           "'\\101'",
                           "'\\x4'",
                           "'\\uD'",
                           "'\\U00110000'",
                           "\x80",
                           "lambda: 0",
                           "__import__('os')",
                           "f'{x}'"})
    EXPECT_THAT(parsed(text), HasSubstr("error: byte ")) << text;
  EXPECT_THAT(parsed(std::string_view("1\0", 2)), HasSubstr("error: byte 1: \"\\x00\""));
  EXPECT_EQ(parsed("(1, os.system('x'))"), "error: byte 4: \"os.system('x'))\", a literal expected");
}

TEST(NumpyLiteral, BoundsIntegersAndDepth) {
  EXPECT_EQ(parsed("9223372036854775808"), "error: byte 0: an integer beyond 64 bits");
  EXPECT_EQ(parsed(std::string(20'000, '9')), "error: byte 0: an integer beyond 64 bits");
  const auto nested = [](size_t depth, char open, char close) {
    return std::string(depth, open) + "1" + std::string(depth, close);
  };
  EXPECT_EQ(parsed(nested(kMaxLiteralDepth, '[', ']')), nested(kMaxLiteralDepth, '[', ']'));
  for (const auto& [open, close] : {std::pair('[', ']'), std::pair('(', ')')})
    EXPECT_EQ(parsed(nested(100'000, open, close)), "error: byte 33: nested deeper than 32 levels");
}

TEST(NumpyLiteral, ChargesEveryValueAndReleasesThem) {
  std::string text = "[";
  for (int i = 0; i < 1'000'000; ++i) text += "1,";
  text += "]";
  Budget budget(0);
  {
    Charges charges(budget);
    const auto literal = parse_literal(text, charges);
    ASSERT_FALSE(literal);
    EXPECT_EQ(literal.error().code, Code::unsupported);
    EXPECT_GT(budget.memory_used(), 0U);
  }
  EXPECT_EQ(budget.memory_used(), 0U);
}

TEST(NumpyLiteral, PrintsLongOnesCut) {
  EXPECT_EQ(parsed("[1, 2, 3, 4, 5]", 6), "[1, 2,...");
  EXPECT_EQ(parsed("'\u00e9\u00e9'", 2), "'\xEF\xBF\xBD...");
}

}  // namespace
}  // namespace weightfs::numpy::literal_test
