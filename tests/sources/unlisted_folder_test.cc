#include "sources/unlisted_folder.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace weightfs::test::unlisted_folder_test {
namespace {

class UnlistedFolderTest : public testing::Test {
 protected:
  std::vector<std::string> requested;
  UnlistedFolder folder{[this](std::string_view path) -> Result<SourcePtr> {
                          requested.emplace_back(path);
                          return in_memory("bytes");
                        },
                        {}};
};

TEST_F(UnlistedFolderTest, FilesAreRequestedByTheirNames) {
  EXPECT_TRUE(folder.open("a"));
  EXPECT_TRUE(folder.open_below("a/b", "model"));
  EXPECT_EQ(requested, (std::vector<std::string>{"a", "a/b"}));
}

TEST_F(UnlistedFolderTest, OtherNamesAreRefusedWithoutRequest) {
  using namespace std::string_view_literals;
  for (const std::string_view name : {""sv, "."sv, ".."sv, "a/b"sv, "a\0b"sv}) EXPECT_FALSE(folder.open(name)) << name;
  for (const std::string_view path : {""sv, "../a"sv, "/a"sv, "a/b\0"sv})
    EXPECT_FALSE(folder.open_below(path, "model")) << path;
  EXPECT_TRUE(requested.empty());
}

}  // namespace
}  // namespace weightfs::test::unlisted_folder_test
