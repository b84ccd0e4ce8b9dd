#include "formats/common/relative_path.h"

#include <gtest/gtest.h>

namespace weightfs::relative_path_test {
namespace {

std::string cleaned(std::string_view path) {
  const auto clean = relative_path(path);
  return clean ? *clean : "error: " + clean.error().message;
}

TEST(RelativePath, IsNormalized) {
  EXPECT_EQ(cleaned("a"), "a");
  EXPECT_EQ(cleaned("a/b/c"), "a/b/c");
  EXPECT_EQ(cleaned("./a//b/./c/"), "a/b/c");
  EXPECT_EQ(cleaned("a/../b"), "b");
  EXPECT_EQ(cleaned("a/b/../../c/d/.."), "c");
  EXPECT_EQ(cleaned("..."), "...");
  EXPECT_EQ(cleaned(std::string(4095, 'x')), std::string(4095, 'x'));
}

TEST(RelativePath, LeadingOutOfTheDirectoryIsRefused) {
  EXPECT_EQ(cleaned(".."), "error: path \"..\" leads out of the model's directory");
  EXPECT_EQ(cleaned("a/../../a"), "error: path \"a/../../a\" leads out of the model's directory");
  EXPECT_EQ(cleaned("/a"), "error: path \"/a\" is absolute");
}

TEST(RelativePath, NamingNoFileIsRefused) {
  EXPECT_EQ(cleaned(""), "error: path \"\" names no file");
  EXPECT_EQ(cleaned("a/.."), "error: path \"a/..\" names no file");
  EXPECT_EQ(cleaned(std::string_view("a\0b", 3)), "error: path \"a\\x00b\" is not a valid path");
  EXPECT_TRUE(cleaned(std::string(4096, 'x')).ends_with("is not a valid path"));
}

}  // namespace
}  // namespace weightfs::relative_path_test
