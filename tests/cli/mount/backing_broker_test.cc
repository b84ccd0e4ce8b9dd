#include "cli/mount/backing_broker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "tests/support/temporary.h"

namespace weightfs::backing_broker_test {
namespace {

constexpr const char* kRefused = "the broker refuses: not a regular file that is open for reading";

class BackingBrokerTest : public testing::Test {
 protected:
  std::string reason(int flags) {
    const Descriptor file(::open(path.c_str(), flags | O_CLOEXEC));
    EXPECT_TRUE(file);
    return reason_of(file.number());
  }
  std::string reason_of(int file) {
    const auto id = broker->open(file);
    return id ? "" : id.error().message;
  }

  TemporaryDirectory directory;
  std::string path = directory.write("file", "bytes");
  fuse::BackingFilesPtr broker = BackingBroker::start().value();
};

TEST_F(BackingBrokerTest, AcceptsOnlyTheDeviceOfAMount) {
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(broker->start(null.number()));
  const Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device) GTEST_SKIP() << "no access to /dev/fuse";
  EXPECT_TRUE(broker->start(device.number()));
}

TEST_F(BackingBrokerTest, AcceptsOnlyRegularFilesThatAreOpenForReading) {
  const Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device) GTEST_SKIP() << "no access to /dev/fuse";
  ASSERT_TRUE(broker->start(device.number()));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const Descriptor reader(ends[0]);
  const Descriptor writer(ends[1]);
  EXPECT_EQ(reason(O_RDWR), kRefused);
  EXPECT_EQ(reason(O_WRONLY), kRefused);
  EXPECT_EQ(reason(O_PATH), kRefused);
  EXPECT_EQ(reason_of(reader.number()), kRefused);
  EXPECT_EQ(reason_of(device.number()), kRefused);
  EXPECT_NE(reason(O_RDONLY), kRefused) << "refused by the kernel: nothing is mounted";
}

TEST_F(BackingBrokerTest, RefusesFilesOfFileSystemsWithoutStorage) {
  const Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device) GTEST_SKIP() << "no access to /dev/fuse";
  ASSERT_TRUE(broker->start(device.number()));
  path = "/proc/self/status";
  EXPECT_EQ(reason(O_RDONLY), "the broker refuses: file system without storage");
}

TEST_F(BackingBrokerTest, ConnectsOnlyToASocket) {
  const std::string absent = directory.path("absent");
  const auto missing = BackingBroker::connect(absent);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "no broker of backing files: " + absent + ": No such file or directory");
  EXPECT_FALSE(BackingBroker::connect(path));
  EXPECT_FALSE(BackingBroker::connect("/" + std::string(200, 'x')));
}

TEST_F(BackingBrokerTest, RefusesFilesWithoutDeviceAndAfterStop) {
  EXPECT_EQ(reason(O_RDONLY), "the broker refuses: not mounted yet");
  broker->stop();
  EXPECT_EQ(reason(O_RDONLY), "the broker process exited");
  broker->close(1);
}

}  // namespace
}  // namespace weightfs::backing_broker_test
