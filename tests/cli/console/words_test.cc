#include "cli/console/words.h"

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

}  // namespace
}  // namespace weightfs::words_test
