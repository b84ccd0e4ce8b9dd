// Lists of files as servers send them: repeated and hostile paths, and limits.
#include "sources/file_list.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weightfs::file_list_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A file of one byte, so that copies can be told apart.
ListedEntry file(char content = 'x') { return {.bytes = in_memory(std::string(1, content))}; }

std::string content(const FileList& files, const std::string& path) {
  const auto found = files.find(path);
  return found == files.end() ? "missing" : read_text(*found->second.bytes, 0, 1).value_or("unreadable");
}

std::vector<std::string> paths(const FileListBuilder::Finished& list) {
  std::vector<std::string> paths;
  for (const auto& [path, entry] : *list.files) paths.push_back(path);
  return paths;
}

FileListBuilder::Finished built(const std::vector<std::string>& paths) {
  FileListBuilder builder;
  for (const std::string& path : paths) EXPECT_TRUE(builder.add(path, file())) << path;
  return std::move(builder).finish();
}

TEST(FileList, RepeatedPathGetsANumber) {
  FileListBuilder builder;
  char next = 'a';
  for (const char* path : {"m", "m", "m", "m-2", "m"}) ASSERT_TRUE(builder.add(path, file(next++)));
  const auto list = std::move(builder).finish();
  EXPECT_THAT(paths(list), ElementsAre("m", "m-2", "m-2-2", "m-3", "m-4"));
  EXPECT_EQ(content(*list.files, "m"), "a");
  EXPECT_EQ(content(*list.files, "m-2"), "b");
  EXPECT_EQ(content(*list.files, "m-3"), "c");
  EXPECT_EQ(content(*list.files, "m-2-2"), "d");
  EXPECT_EQ(content(*list.files, "m-4"), "e");
  EXPECT_THAT(list.warnings, SizeIs(4));
  EXPECT_THAT(list.warnings, Each(HasSubstr("is listed more than once")));
}

TEST(FileList, NumberThatIsListedIsSkipped) {
  EXPECT_THAT(paths(built({"m", "m-2", "m-3", "m", "m"})), ElementsAre("m", "m-2", "m-3", "m-4", "m-5"));
}

// With a search from the first copy on, this takes 5 * 10^9 steps.
TEST(FileList, HundredThousandCopiesTakeLinearTime) {
  constexpr size_t kCopies = 100'000;
  FileListBuilder builder;
  for (size_t i = 0; i < kCopies; ++i) ASSERT_TRUE(builder.add("m", file()));
  const auto list = std::move(builder).finish();
  EXPECT_THAT(*list.files, SizeIs(kCopies));
  EXPECT_TRUE(list.files->contains(fmt::format("m-{}", kCopies)));
  EXPECT_THAT(list.warnings, SizeIs(101));
  EXPECT_EQ(list.warnings.back(), fmt::format("... and {} more", kCopies - 1 - 100));
}

TEST(FileList, FilesBelowAFileAreLeftOut) {
  const auto list = built({"a/b/c", "a", "a-b", "a/b", "a0", "ab/c", "d/e"});
  EXPECT_THAT(paths(list), ElementsAre("a", "a-b", "a0", "ab/c", "d/e"));
  EXPECT_THAT(list.warnings, SizeIs(2));
  EXPECT_THAT(list.warnings, Each(HasSubstr("is below a file")));
}

TEST(FileList, HostilePathsAreLeftOut) {
  using namespace std::string_literals;
  std::string deep = "d";
  for (int i = 0; i < 64; ++i) deep += "/d";
  const std::vector<std::string> hostile = {"",      "/",  "/a",   "a/",     "a//b",  ".", "./a",
                                            "a/./b", "..", "../a", "a/../b", "a\0b"s, deep};
  const auto list = built(hostile);
  EXPECT_THAT(*list.files, IsEmpty());
  EXPECT_THAT(list.warnings, SizeIs(hostile.size()));
  EXPECT_THAT(paths(built({"...", "a b", "\n", "-rf", "a\\b", deep.substr(2)})), SizeIs(6));
}

TEST(FileList, WarningsArePrintableAndShort) {
  for (const std::string& line : built({"a//" + std::string(1'000'000, 'x'), "\n/../\x1b[2J"}).warnings) {
    EXPECT_LT(line.size(), 200U);
    EXPECT_THAT(line, testing::Not(testing::ContainsRegex("[\n\x1b]")));
  }
}

// Paths that are left out count, too.
TEST(FileList, PathsOfMoreThan256MiBAreRefused) {
  FileListBuilder builder;
  const std::string path(64 << 20, '/');
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(builder.add(path, file()));
  const auto refused = builder.add("m", file());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
  EXPECT_EQ(refused.error().message, "file names of more than 256 MiB");
}

}  // namespace
}  // namespace weightfs::file_list_test
