// Local sockets: their directories, and what is left of them.
#include "cli/serve/listen.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/temporary.h"

namespace weightfs::listen_test {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & ALLPERMS;
}

class LocalSocket : public testing::Test {
 protected:
  Result<std::vector<Listening>> listen(std::string_view name) const {
    return listen_on(fmt::format("unix:{}", temporary.path(name)), "");
  }

  const TemporaryDirectory temporary;
};

TEST_F(LocalSocket, MissingDirectoryIsMadeForThisUserAndRemoved) {
  const auto made = listen("own/socket");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(mode_of(temporary.path("own")), static_cast<mode_t>(S_IRWXU));
  EXPECT_EQ(made->front().url, "unix:" + temporary.path("own/socket"));
  remove_socket(made->front());
  EXPECT_FALSE(std::filesystem::exists(temporary.path("own")));
}

TEST_F(LocalSocket, DirectoryThatExistsIsKept) {
  std::filesystem::create_directory(temporary.path("other"));
  const mode_t mode = mode_of(temporary.path("other"));
  const auto made = listen("other/socket");
  ASSERT_TRUE(made) << made.error().message;
  remove_socket(made->front());
  EXPECT_TRUE(std::filesystem::is_empty(temporary.path("other")));
  EXPECT_EQ(mode_of(temporary.path("other")), mode);
}

TEST_F(LocalSocket, OnlyTheLastDirectoryIsMade) {
  EXPECT_FALSE(listen("missing/deep/socket"));
  EXPECT_FALSE(std::filesystem::exists(temporary.path("missing")));
}

TEST_F(LocalSocket, FileIsNotReplacedByASocket) {
  const std::string path = temporary.write("file", "text");
  EXPECT_FALSE(listen("file"));
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
}

TEST_F(LocalSocket, SocketWithAServerAndOtherFilesStay) {
  const auto first = listen("own/socket");
  ASSERT_TRUE(first);
  EXPECT_FALSE(listen("own/socket")) << "it has a server";
  const auto other = listen("own/other");
  ASSERT_TRUE(other);
  remove_socket(first->front());
  EXPECT_TRUE(std::filesystem::is_socket(temporary.path("own/other"))) << "a directory with other files is kept";
}

}  // namespace
}  // namespace weightfs::listen_test
