#include "base/os/mounts.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

namespace weightfs::mounts_test {
namespace {

TEST(MountLine, ParsesSourceAndMountPoint) {
  const auto mount = mount_in(
      "36 35 0:42 / /home/u/m\\040n\\134t ro,nosuid,nodev shared:1 master:2 - fuse.weightfs /a,\\040b.gguf "
      "ro,user_id=1000,group_id=100,allow_other");
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->id, 36U);
  EXPECT_EQ(mount->parent, 35U);
  EXPECT_EQ(mount->device, makedev(0, 42));
  EXPECT_EQ(mount->point, "/home/u/m n\\t");
  EXPECT_EQ(mount->source, "/a, b.gguf");
  EXPECT_EQ(mount->user, 1000U);
  EXPECT_EQ(mount->group, 100U);
  EXPECT_TRUE(mount->is_weightfs());
}

TEST(MountLine, MayHaveAnEmptySourceAndNoUser) {
  const auto mount = mount_in("1 0 8:1 / / rw - ext4  rw");
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->source, "");
  EXPECT_FALSE(mount->user);
  EXPECT_FALSE(mount->is_weightfs());
}

TEST(MountLine, SourceResemblingATypeIsNotParsedAsType) {
  const auto mount = mount_in("1 0 8:1 / /mnt rw - tmpfs fuse.weightfs rw,user_id=x");
  ASSERT_TRUE(mount);
  EXPECT_FALSE(mount->is_weightfs());
  EXPECT_FALSE(mount->user);
}

TEST(MountLine, RefusesMalformedLine) {
  for (const char* line : {"", " ", "1", "1 0 8:1 / /mnt rw", "1 0 8:1 / /mnt rw - ext4", "x 0 8:1 / / rw - ext4 a rw",
                           "1 0 81 / / rw - ext4 a rw", "1 0  / / rw - ext4 a rw", "1 0 8:1 - ext4 a rw b c d"})
    EXPECT_FALSE(mount_in(line)) << line;
}

TEST(Mounts, IncludeRoot) {
  const Mounts now = Mounts::now();
  ASSERT_FALSE(now.all().empty());
  EXPECT_EQ(now.find(now.all().front().id), &now.all().front());
  EXPECT_EQ(now.find(UINT64_MAX), nullptr);
}

}  // namespace
}  // namespace weightfs::mounts_test
