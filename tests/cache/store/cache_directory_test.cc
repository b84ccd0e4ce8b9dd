// Where the cache is, by the environment.
#include "cache/cache_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "cache/blob_store.h"

namespace weightfs::test::cache_directory_test {
namespace {

using Environment = std::map<std::string, std::string>;

// What it is with these variables and none of the others.
std::string directory_with(const Environment& environment) {
  std::map<std::string, std::optional<std::string>> before;
  for (const std::string name : {"WEIGHTFS_CACHE", "XDG_CACHE_HOME", "HOME"}) {
    const char* value = std::getenv(name.c_str());
    before[name] = value ? std::optional<std::string>(value) : std::nullopt;
    const auto wanted = environment.find(name);
    if (wanted == environment.end())
      ::unsetenv(name.c_str());
    else
      ::setenv(name.c_str(), wanted->second.c_str(), 1);
  }
  const auto directory = cache_directory();
  for (const auto& [name, value] : before)
    if (value)
      ::setenv(name.c_str(), value->c_str(), 1);
    else
      ::unsetenv(name.c_str());
  return directory ? *directory : "error: " + directory.error().message;
}

TEST(CacheDirectory, IsTheConfiguredOne) {
  EXPECT_EQ(directory_with({{"WEIGHTFS_CACHE", "/a/b"}, {"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}), "/a/b");
}

TEST(CacheDirectory, IsAbsolute) {
  EXPECT_EQ(directory_with({{"WEIGHTFS_CACHE", "here"}}), (std::filesystem::current_path() / "here").string());
}

TEST(CacheDirectory, DefaultsToXdgCacheHome) {
  EXPECT_EQ(directory_with({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}), "/x/weightfs");
}

// XDG Base Directory Specification: all paths must be absolute; a relative one is invalid and to be ignored.
TEST(CacheDirectory, DefaultsToHomeExceptForRoot) {
  const std::string expected = ::geteuid() == 0 ? "/var/cache/weightfs" : "/h/.cache/weightfs";
  EXPECT_EQ(directory_with({{"HOME", "/h"}}), expected);
  EXPECT_EQ(directory_with({{"XDG_CACHE_HOME", "relative"}, {"WEIGHTFS_CACHE", ""}, {"HOME", "/h"}}), expected);
}

TEST(CacheDirectory, IsNotFoundWithoutEnvironmentVariables) {
  const std::string expected =
      ::geteuid() == 0 ? "/var/cache/weightfs"
                       : "error: no cache directory: none of WEIGHTFS_CACHE, XDG_CACHE_HOME and HOME is set";
  EXPECT_EQ(directory_with({}), expected);
}

}  // namespace
}  // namespace weightfs::test::cache_directory_test
