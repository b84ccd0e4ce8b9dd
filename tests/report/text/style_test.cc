#include "report/text/style.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightfs::info_text_test {
namespace {

using info::Charset;
using info::Colours;
using info::Paint;
using info::Style;
using testing::ElementsAre;

constexpr Style kUtf8{80, Charset::utf8, Colours::off};
constexpr Style kAscii{80, Charset::ascii, Colours::off};

TEST(InfoText, NumbersHaveThreeDigits) {
  EXPECT_EQ(info::parameters_text(0), "0");
  EXPECT_EQ(info::parameters_text(999), "999");
  EXPECT_EQ(info::parameters_text(4096), "4.1 k");
  EXPECT_EQ(info::parameters_text(81'920), "82 k");
  EXPECT_EQ(info::parameters_text(73'760), "74 k");
  EXPECT_EQ(info::parameters_text(4'250), "4.2 k") << "in the middle, the even one";
  EXPECT_EQ(info::parameters_text(1'125'000), "1.12 M");
  EXPECT_EQ(info::parameters_text(999'499), "999 k");
  EXPECT_EQ(info::parameters_text(999'500), "1.00 M");
  EXPECT_EQ(info::parameters_text(41'947'136), "41.9 M");
  EXPECT_EQ(info::parameters_text(999'600'000), "1.00 B");
  EXPECT_EQ(info::parameters_text(8'030'261'248), "8.03 B");
  EXPECT_EQ(info::parameters_text(1'040'000'000'000), "1.04 T");
  EXPECT_EQ(info::bytes_text(1023), "1023 B");
  EXPECT_EQ(info::bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(info::bytes_text(10'752), "10 KiB");
  EXPECT_EQ(info::bytes_text(16'384), "16 KiB");
  EXPECT_EQ(info::bytes_text((1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(info::bytes_text(uint64_t{54} << 30), "54.0 GiB");
  EXPECT_EQ(info::bytes_text(UINT64_MAX), "16.0 EiB");
  EXPECT_EQ(info::grouped(0), "0");
  EXPECT_EQ(info::grouped(131'072), "131,072");
  EXPECT_EQ(info::grouped(1'234'567), "1,234,567");
  EXPECT_EQ(info::percent_text(1, 3), "33");
  EXPECT_EQ(info::percent_text(1, 0), "0");
  EXPECT_EQ(info::decimal_text(500'000), "500,000");
  EXPECT_EQ(info::decimal_text(0.5), "0.5");
}

TEST(InfoText, WidthIsThatOfATerminal) {
  EXPECT_EQ(info::width_of("0…31"), 4u);
  EXPECT_EQ(info::width_of("模型"), 4u);
  EXPECT_EQ(info::width_of("e\u0301"), 1u);
  EXPECT_EQ(info::width_of(info::painted("abc", Paint::red)), 3u);
}

TEST(InfoText, LongTextIsShortenedInTheMiddle) {
  EXPECT_EQ(info::shortened("layers.0.experts", 9, kUtf8), "laye…erts");
  EXPECT_EQ(info::shortened("layers.0.experts", 9, kAscii), "lay...rts");
  EXPECT_EQ(info::shortened("short", 5, kUtf8), "short");
  EXPECT_EQ(info::shortened("模型模型", 5, kUtf8), "模…型");
  EXPECT_EQ(info::shortened("abcdef", 1, kUtf8), "…");
  EXPECT_EQ(info::shortened("abcdef", 2, kAscii), "..");
  EXPECT_EQ(info::cut("float32, int64", 9, kUtf8), "float32,…");
}

TEST(InfoText, WrapsAtBlanksAndCommas) {
  EXPECT_THAT(info::wrapped("32: hidden 4,096, ffn 14,336", 18, kUtf8), ElementsAre("32: hidden 4,096,", "ffn 14,336"));
  EXPECT_THAT(info::wrapped("[batch,channels,height,width]", 16, kUtf8),
              ElementsAre("[batch,channels,", "height,width]"));
  EXPECT_THAT(info::wrapped("org/a-long-name-of-a-model", 12, kUtf8), ElementsAre("org/a…-model"));
  EXPECT_THAT(info::wrapped("", 10, kUtf8), ElementsAre(""));
}

TEST(InfoText, ColoursContinueOnTheNextLine) {
  const auto lines = info::wrapped(info::painted("one two", Paint::red), 3, kUtf8);
  EXPECT_EQ(info::emit(lines, {80, Charset::utf8, Colours::on}), "\033[31mone\033[0m\n\033[31mtwo\033[0m\n");
  EXPECT_EQ(info::emit(lines, kUtf8), "one\ntwo\n");
}

TEST(InfoText, ClausesStayTogether) {
  const std::string text = "DAMAGED: it ends early: 3 tensors refused; interrupted?";
  EXPECT_THAT(info::wrapped_at_clauses(text, 42, kUtf8),
              ElementsAre("DAMAGED: it ends early: 3 tensors refused;", "interrupted?"));
  EXPECT_THAT(info::wrapped_at_clauses(text, 30, kUtf8),
              ElementsAre("DAMAGED: it ends early:", "3 tensors refused;", "interrupted?"));
  EXPECT_THAT(info::wrapped_at_clauses("DAMAGED: a clause that is long: b", 20, kUtf8),
              ElementsAre("DAMAGED: a clause", "that is long: b"));
}

TEST(InfoText, ListsNameTheNumberOfOthers) {
  EXPECT_EQ(info::listed({"a", "b"}, 2), "a, b");
  EXPECT_EQ(info::listed({"a", "b", "c"}, 2), "a, b, and 1 other");
  EXPECT_EQ(info::listed({"a", "b", "c"}, 1), "a and 2 others");
}

TEST(InfoText, CleanTextHasNeitherControlCharactersNorMarks) {
  EXPECT_EQ(info::clean("a\x01\x05\n\x1B\x7F\xC2\x9B\xFFz", kUtf8), "a???????z");
  EXPECT_EQ(info::clean("\u202Eabc\u2066\u200B\uFEFFz", kUtf8), "?abc???z");
  EXPECT_EQ(info::clean("é…×·", kAscii), "?...x-");
}

}  // namespace
}  // namespace weightfs::info_text_test
