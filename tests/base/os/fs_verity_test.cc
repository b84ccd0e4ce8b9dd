// Files for which fs-verity is enabled, and those for which it cannot be.
#include "base/os/fs_verity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fsverity.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <string>

#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/source.h"
#include "base/verity/block_list.h"
#include "tests/support/temporary.h"

namespace weightfs::fs_verity_test {
namespace {

std::string content(int fd) {
  std::array<char, 100> bytes{};
  const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), 0);
  return {bytes.data(), static_cast<size_t>(got < 0 ? 0 : got)};
}

TEST(FsVerity, FileSystemWithoutItLeavesTheFileUnchanged) {
  const Descriptor file(::memfd_create("file", MFD_CLOEXEC));
  ASSERT_EQ(::write(file.number(), "bytes", 5), 5);
  const std::string path = "/proc/self/fd/" + std::to_string(file.number());
  const Descriptor reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(reader);
  EXPECT_FALSE(enable_fs_verity(reader.number()));
  EXPECT_EQ(content(reader.number()), "bytes");
  EXPECT_EQ(::pwrite(file.number(), "B", 1, 0), 1);
}

TEST(FsVerity, FileThatIsOpenForWritingIsUnchanged) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("file", "bytes");
  const Descriptor writer(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const Descriptor reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(writer && reader);
  EXPECT_FALSE(enable_fs_verity(writer.number()));
  EXPECT_FALSE(enable_fs_verity(reader.number()));
  EXPECT_EQ(::pwrite(writer.number(), "B", 1, 0), 1);
  EXPECT_EQ(content(reader.number()), "Bytes");
}

TEST(FsVerity, DirectoryAndInvalidDescriptorAreNotEnabled) {
  const Descriptor directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_FALSE(enable_fs_verity(directory.number()));
  EXPECT_FALSE(enable_fs_verity(-1));
}

// A small ext4 file system with fs-verity, in a file.
class Ext4 {
 public:
  Ext4() {
    const std::string image = directory_.write("image", "");
    root = directory_.path("root");
    if (::geteuid() != 0)
      reason = "only root can mount";
    else if (::access("/sys/fs/ext4/features/verity", F_OK) != 0)
      reason = "the kernel is built without fs-verity for ext4";
    else if (run("truncate -s 64M " + image) != 0 || run("mkfs.ext4 -q -O verity -b 4096 " + image) != 0)
      reason = "mkfs.ext4 cannot make a file system with fs-verity";
    else if (::mkdir(root.c_str(), 0755) != 0 || run("mount -o loop " + image + " " + root) != 0)
      reason = "the kernel cannot mount a file system here";
    is_mounted_ = reason.empty();
  }
  ~Ext4() {
    if (is_mounted_) ::umount2(root.c_str(), MNT_DETACH);
  }
  Ext4(const Ext4&) = delete;
  Ext4& operator=(const Ext4&) = delete;

  std::string root;
  std::string reason;  // why it is not mounted; empty if it is

 private:
  static int run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()); }

  const TemporaryDirectory directory_;
  bool is_mounted_ = false;
};

TEST(FsVerity, EnabledFileIsReadOnlyAndHasTheDigestOfItsBlockList) {
  const Ext4 ext4;
  if (!ext4.reason.empty()) GTEST_SKIP() << ext4.reason;
  const std::string data(300 * 4096 + 5, 'a');
  const std::string path = ext4.root + "/file";
  std::ofstream(path, std::ios::binary) << data;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file);
  ASSERT_TRUE(enable_fs_verity(file.number())) << errno_text(errno);
  EXPECT_TRUE(enable_fs_verity(file.number())) << "enabled before";
  EXPECT_EQ(::open(path.c_str(), O_WRONLY | O_CLOEXEC), -1);

  alignas(fsverity_digest) std::array<std::byte, sizeof(fsverity_digest) + 32> measured{};
  auto* const digest = reinterpret_cast<fsverity_digest*>(measured.data());
  digest->digest_size = 32;
  ASSERT_EQ(::ioctl(file.number(), FS_IOC_MEASURE_VERITY, digest), 0);
  Digest found;
  std::copy_n(measured.begin() + sizeof(fsverity_digest), 32, found.bytes.begin());
  BlockListBuilder builder(data.size(), [](uint64_t, std::span<const std::byte>) -> Result<void> { return {}; });
  ASSERT_TRUE(builder.add(std::as_bytes(std::span(data))).has_value());
  EXPECT_EQ(found, builder.finish().value());
}

}  // namespace
}  // namespace weightfs::fs_verity_test
