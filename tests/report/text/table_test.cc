#include "report/text/table.h"

#include <gtest/gtest.h>

#include "tests/cli/command_line.h"

namespace weightfs::table_test {
namespace {

std::string printed(const Table& table, size_t width) {
  test::CapturedStream out(stdout, STDOUT_FILENO);
  table.print({TableStyle::aligned, TableStyle::uncolored, width});
  return "\n" + out.text();
}

TEST(Table, TextBelowItsRowIsWrapped) {
  Table table({{"check"}, {"found"}});
  table.add({"io_uring", "available in mounts by root, and by others if allowed"});
  table.add({"cache", "/a/path of several words, longer than the terminal"});
  table.add({"user", "a-word-that-is-longer-than-the-terminal stays whole"});
  EXPECT_EQ(printed(table, 30), R"(
check
io_uring
  found: available in mounts
    by root, and by others if
    allowed
cache
  found: /a/path of several words, longer than the terminal
user
  found: a-word-that-is-longer-than-the-terminal
    stays whole
)");
}

TEST(Table, TextThatFitsStaysInItsRow) {
  Table table({{"check"}, {"found"}});
  table.add({"cache", "a directory"});
  EXPECT_EQ(printed(table, 30), R"(
check  found
cache  a directory
)");
}

TEST(Table, LinesWithTabsHaveAHeaderOfWordsWithoutBlanks) {
  Table table({{"last used"}, {"size", Align::right}});
  const TableStyle tabs{TableStyle::tabs, TableStyle::uncolored, {}};
  const auto text = [&] {
    test::CapturedStream out(stdout, STDOUT_FILENO);
    table.print(tabs);
    return out.text();
  };
  EXPECT_EQ(text(), "last_used\tsize\n");
  table.add({{"today", "a\tb\n"}, {"1 B", "1"}});
  EXPECT_EQ(text(), "last_used\tsize\na\\tb\\n\t1\n");
}

}  // namespace
}  // namespace weightfs::table_test
