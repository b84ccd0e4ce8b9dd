#include "report/text/words.h"

#include <gtest/gtest.h>

namespace weightfs::words_test {
namespace {

TEST(Counted, OneHasAWordOfItsOwn) {
  EXPECT_EQ(counted(0, "entry", "entries"), "0 entries");
  EXPECT_EQ(counted(1, "entry", "entries"), "1 entry");
  EXPECT_EQ(counted(2, "entry", "entries"), "2 entries");
}

TEST(Enumerated, EmptyTextsAreLeftOut) {
  EXPECT_EQ(enumerated({}), "");
  EXPECT_EQ(enumerated({"", "a", ""}), "a");
  EXPECT_EQ(enumerated({"a", "b", "", "c"}), "a, b, c");
  EXPECT_EQ(enumerated({"a", "b", "c"}, " or "), "a, b or c");
  EXPECT_EQ(enumerated({"a", "b"}, " and "), "a and b");
}

TEST(CommandWord, NameThatCannotBeCopiedHasNone) {
  EXPECT_EQ(command_word("mnt"), "mnt");
  EXPECT_EQ(command_word("./it's a \"name\""), R"('./it'\''s a "name"')");
  EXPECT_EQ(command_word("n\u00e9e"), "'n\u00e9e'");
  for (const char* const name : {"a\nb", "\x1b[2J", "a\xFF"}) EXPECT_EQ(command_word(name), std::nullopt);
}

}  // namespace
}  // namespace weightfs::words_test
