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

TEST(ListenOnTcp, PortAloneIsOfThisMachine) {
  const auto made = listen_on("0", "http");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(made->front().is_loopback);
  EXPECT_EQ(made->front().host, "127.0.0.1");
}

TEST(ListenOnTcp, NumberThatIsNoPortIsRefused) {
  for (const char* const where : {"99999", "127.0.0.1:99999", "65536", "18446744073709551617"}) {
    const auto made = listen_on(where, "http");
    ASSERT_FALSE(made) << where;
    EXPECT_EQ(made.error().message, fmt::format("--listen {}: not a valid port; ports are 0 to 65535", where));
  }
  EXPECT_EQ(listen_on("80a", "http").error().message, "--listen 80a: not PORT, ADDRESS:PORT, unix:PATH or systemd");
}

}  // namespace
}  // namespace weightfs::listen_test
