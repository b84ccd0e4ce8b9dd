#include "base/text.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <iomanip>
#include <utility>

namespace weightfs::text_test {
namespace {

TEST(Quoted, EscapesTerminalControls) {
  EXPECT_EQ(quoted("plain"), "\"plain\"");
  EXPECT_EQ(quoted("a\n\x1b[31m\"\\\x7f"), R"("a\x0a\x1b[31m\x22\x5c\x7f")");
  EXPECT_EQ(quoted("\xC2\x9B"), R"("\xc2\x9b")") << "U+009B starts a control sequence, too";
  EXPECT_EQ(quoted("h\xC3\xA9 \xFF"), "\"h\xC3\xA9 \\xff\"");
}

TEST(Printable, EscapesWhatATerminalDoesNotShowAsItself) {
  for (const char* hidden :
       {"\x1b",   "\x7f",   "\u0080", "\u009b", "\u009f", "\u00ad", "\u061c", "\u180e",     "\u200b",    "\u200c",
        "\u200d", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202d", "\u202e",     "\u2060",    "\u2064",
        "\u2066", "\u2067", "\u2068", "\u2069", "\u206f", "\ufeff", "\ufff9", "\U000e0001", "\U000e0061"}) {
    std::string escaped;
    for (const char c : std::string_view(hidden)) escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    EXPECT_EQ(printable(fmt::format("a{}b", hidden)), fmt::format("a{}b", escaped));
    EXPECT_EQ(quoted(fmt::format("a{}b", hidden)), fmt::format("\"a{}b\"", escaped));
  }
  const std::string shown = "a \u00a0\u00ac\u00ae\u2010\u2027\u202f\u2070\ufe0f\ufffd\u65e5\u05d0\u0627\U0001f600";
  EXPECT_EQ(printable(shown), shown) << "letters that are written from right to left, too";
}

TEST(Quoted, IsNotStdQuoted) {
  std::string name = "\x1b";
  EXPECT_EQ(fmt::format("{}{}{}", quoted(name), quoted(std::as_const(name)), quoted(std::string("\x1b"))),
            R"("\x1b""\x1b""\x1b")");
}

TEST(Quoted, TruncatesLongName) {
  const std::string text = quoted(std::string(5000, 'x'));
  EXPECT_LT(text.size(), 100U);
  EXPECT_TRUE(text.ends_with("...\""));
}

TEST(ShellWord, IsQuotedWhereAShellNeedsIt) {
  EXPECT_EQ(shell_word("./a-b/c@1.gguf"), "./a-b/c@1.gguf");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's $x"), R"('it'\''s $x')");
}

TEST(Utf8, FollowsRfc3629) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a\xC2\x80\xE0\xA0\x80\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"));
  for (const char* bad : {"\x80", "\xC0\xAF", "\xC1\x80", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\x80\x80",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC2", "\xE2\x82", "\xF0\x9F\x98"})
    EXPECT_FALSE(is_utf8(bad)) << quoted(bad);
}

TEST(Utf8, ReplacesInvalidBytes) {
  EXPECT_EQ(to_utf8("a\xFF\xE2\x82z"), "a\uFFFD\uFFFD\uFFFDz");
  EXPECT_EQ(to_utf8("caf\xC3\xA9"), "caf\xC3\xA9");
}

TEST(Utf8, EncodesEachLengthAtItsLimits) {
  const auto encoded = [](uint32_t point) {
    std::string text;
    append_utf8(text, point);
    return text;
  };
  EXPECT_EQ(encoded(0x7F), "\x7F");
  EXPECT_EQ(encoded(0x80), "\xC2\x80");
  EXPECT_EQ(encoded(0x7FF), "\xDF\xBF");
  EXPECT_EQ(encoded(0x800), "\xE0\xA0\x80");
  EXPECT_EQ(encoded(0xFFFF), "\xEF\xBF\xBF");
  EXPECT_EQ(encoded(0x10000), "\xF0\x90\x80\x80");
  EXPECT_EQ(encoded(0x10FFFF), "\xF4\x8F\xBF\xBF");
}

TEST(Text, HexDigitHasBothCases) {
  for (int i = 0; i < 16; ++i) EXPECT_EQ(hex_digit("0123456789abcdef"[i]), i);
  EXPECT_EQ(hex_digit('F'), 15);
  for (const char c : {'g', 'G', '/', ':', '@', '`', '\xFF'}) EXPECT_LT(hex_digit(c), 0);
}

TEST(Text, ComponentsAreCutOneByOne) {
  std::string_view rest = "a//b";
  EXPECT_EQ(cut_component(rest), "a");
  EXPECT_EQ(cut_component(rest), "");
  EXPECT_EQ(cut_component(rest), "b");
  EXPECT_EQ(rest, "");
  EXPECT_EQ(cut_component(rest), "");
}

TEST(HumanSize, UsesBinaryUnits) {
  EXPECT_EQ(human_size(0), "0 B");
  EXPECT_EQ(human_size(1023), "1023 B");
  EXPECT_EQ(human_size(1536), "1.5 KiB");
  EXPECT_EQ(human_size(uint64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(human_size(UINT64_MAX), "16.0 EiB");
}

TEST(Text, NumberIsTheWholeText) {
  EXPECT_EQ(parse_number<uint8_t>("255"), 255);
  EXPECT_EQ(parse_number<int>("-7"), -7);
  EXPECT_EQ(parse_number<unsigned>("fF", 16), 255U);
  EXPECT_EQ(parse_number<double>("1.5e3"), 1500.0);
  for (const char* text : {"", "256", "-1", "+1", " 1", "1 ", "1x"})
    EXPECT_EQ(parse_number<uint8_t>(text), std::nullopt) << text;
}

TEST(Text, VisibleAsciiHasNoWhiteSpaceAndControlCharacters) {
  for (const char* text : {"", "!a~", "\"x\""}) EXPECT_TRUE(is_visible_ascii(text)) << text;
  for (const char* text : {" ", "a b", "a\n", "\x1f", "\x7f", "\u00e9"}) EXPECT_FALSE(is_visible_ascii(text)) << text;
  EXPECT_FALSE(is_visible_ascii(std::string_view("a\0b", 3)));
}

TEST(Text, FileNameIsOneComponent) {
  for (const char* name : {"a", "...", ".a", "a b\n"}) EXPECT_TRUE(is_file_name(name)) << name;
  for (const char* name : {"", ".", "..", "/", "a/", "a/b"}) EXPECT_FALSE(is_file_name(name)) << name;
  EXPECT_FALSE(is_file_name(std::string_view("a\0b", 3)));
}

TEST(Text, NormalizedPathHasNoEmptyComponentsAndDots) {
  for (const Dots dots : {Dots::kept, Dots::resolved, Dots::refused}) {
    EXPECT_EQ(normalize("/a//./b/", dots), "a/b");
    EXPECT_EQ(normalize("./", dots), "");
  }
  EXPECT_EQ(normalize("../a/../b", Dots::kept), "../a/../b");
  EXPECT_EQ(normalize("a/b/../../c/", Dots::resolved), "c");
  EXPECT_EQ(normalize("a/..", Dots::resolved), "");
  EXPECT_EQ(normalize("a/../..", Dots::resolved), std::nullopt);
  EXPECT_EQ(normalize("../a", Dots::resolved), std::nullopt);
  EXPECT_EQ(normalize("a/..", Dots::refused), std::nullopt);
}

TEST(Text, PlainPathHasOnlyFileNames) {
  for (const char* path : {"a", "a/b", "...", ".a/b.", "a b/\n"}) EXPECT_TRUE(is_plain_path(path)) << path;
  for (const char* path : {"", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/../b", "a/."})
    EXPECT_FALSE(is_plain_path(path)) << path;
  EXPECT_FALSE(is_plain_path(std::string_view("a/b\0", 4)));
}

TEST(Text, WhiteSpaceAtBothEndsIsTrimmed) {
  EXPECT_EQ(trimmed(" \t\r\n\v\fa b\n "), "a b");
  EXPECT_EQ(trimmed(" \t"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Text, LowerCaseChangesOnlyAscii) { EXPECT_EQ(lower_case("AZaz@[0-\xC3\x84"), "azaz@[0-\xC3\x84"); }

}  // namespace
}  // namespace weightfs::text_test
