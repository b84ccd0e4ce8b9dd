#include "fs/living/directory_watch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/support/temporary.h"

namespace weightfs::directory_watch_test {
namespace {

using testing::Contains;
using testing::IsEmpty;

class DirectoryWatchTest : public testing::Test {
 protected:
  std::optional<int> add(const std::string& path) {
    return watch.add(Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  }
  // Those that the kernel reports within a second.
  DirectoryWatch::Events events() {
    pollfd ready{watch.descriptor(), POLLIN, 0};
    ::poll(&ready, 1, 1000);
    return watch.read();
  }
  std::string path(const std::string& name) const { return directory.path(name); }

  TemporaryDirectory directory;
  DirectoryWatch watch{2};
};

TEST_F(DirectoryWatchTest, ReportsFilesThatAreCreatedClosedRenamedAndRemoved) {
  const int number = add(directory.path(".")).value();
  std::ofstream(path("a")) << "a";
  EXPECT_THAT(events().watches, Contains(number));
  EXPECT_EQ(::rename(path("a").c_str(), path("b").c_str()), 0);
  EXPECT_THAT(events().watches, Contains(number));
  EXPECT_EQ(::chmod(path("b").c_str(), 0600), 0);
  EXPECT_THAT(events().watches, Contains(number));
  EXPECT_EQ(::unlink(path("b").c_str()), 0);
  EXPECT_THAT(events().watches, Contains(number));
  EXPECT_THAT(watch.read().watches, IsEmpty());
}

TEST_F(DirectoryWatchTest, ReadingIsNotReported) {
  std::ofstream(path("a")) << "a";
  add(directory.path("."));
  std::string text;
  std::ifstream(path("a")) >> text;
  EXPECT_EQ(text, "a");
  EXPECT_THAT(watch.read().watches, IsEmpty());
}

TEST_F(DirectoryWatchTest, SameDirectoryHasOneWatch) {
  EXPECT_EQ(add(directory.path(".")), add(directory.path("") + "/."));
}

TEST_F(DirectoryWatchTest, RemovedDirectoryEndsItsWatch) {
  ASSERT_EQ(::mkdir(path("sub").c_str(), 0700), 0);
  const int number = add(path("sub")).value();
  ASSERT_EQ(::rmdir(path("sub").c_str()), 0);
  EXPECT_THAT(events().ended, Contains(number));
}

TEST_F(DirectoryWatchTest, NoMoreThanTheMaximumAreWatched) {
  for (const char* name : {"a", "b", "c"}) ASSERT_EQ(::mkdir(path(name).c_str(), 0700), 0);
  const int first = add(path("a")).value();
  EXPECT_TRUE(add(path("b")));
  EXPECT_FALSE(add(path("c")));
  EXPECT_EQ(add(path("a")), first);
  watch.remove(first);
  EXPECT_TRUE(add(path("c")));
}

TEST_F(DirectoryWatchTest, FileSystemsThatOthersChangeAreNotWatched) { EXPECT_FALSE(add("/proc/self")); }

}  // namespace
}  // namespace weightfs::directory_watch_test
