#include "base/os/permission.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace weightfs::permission_test {
namespace {

constexpr uid_t kAlice = 1000;
constexpr gid_t kStaff = 50;

const UserRights alice{kAlice, {kAlice, kStaff}};

FilePermissions file(uid_t owner, gid_t group, mode_t mode, std::string acl = "") {
  return {owner, group, mode, std::move(acl)};
}

bool may_read(const FilePermissions& f) { return is_permitted(alice, f, Permission::read); }
bool may_search(const FilePermissions& f) { return is_permitted(alice, f, Permission::search); }

// A value of system.posix_acl_access.
struct Acl {
  std::string bytes = std::string("\2\0\0\0", 4);
  Acl& add(int tag, int bits, uint32_t id = 0xFFFFFFFF) {
    for (const int number : {tag, bits}) bytes += {static_cast<char>(number), 0};
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(id >> (8 * i) & 0xFF);
    return *this;
  }
};
constexpr int kUserObj = 1, kUser = 2, kGroupObj = 4, kGroup = 8, kMask = 16, kOther = 32;

TEST(Permission, OwnerUsesOnlyOwnerBits) {
  EXPECT_TRUE(may_read(file(kAlice, 0, 0400)));
  EXPECT_FALSE(may_read(file(kAlice, kStaff, 0077)));
}

TEST(Permission, GroupMemberUsesOnlyGroupBits) {
  EXPECT_TRUE(may_read(file(0, kStaff, 0040)));
  EXPECT_FALSE(may_read(file(0, kStaff, 0604)));
}

TEST(Permission, OthersUseOtherBits) {
  EXPECT_TRUE(may_read(file(0, 0, 0004)));
  EXPECT_FALSE(may_read(file(0, 0, 0660)));
  EXPECT_FALSE(may_read(file(0, 42, 0640))) << "/etc/shadow";
}

TEST(Permission, SearchIsTheExecuteBit) {
  EXPECT_TRUE(may_search(file(0, 0, 0711)));
  EXPECT_FALSE(may_search(file(0, 0, 0744)));
}

TEST(Permission, UserWithUnknownGroupsNeedsGroupAndOtherBits) {
  const UserRights unknown{4'000'000, {}, false};
  EXPECT_TRUE(is_permitted(unknown, file(0, 0, 0644), Permission::read));
  EXPECT_FALSE(is_permitted(unknown, file(0, 0, 0604), Permission::read));
  EXPECT_FALSE(is_permitted(unknown, file(0, 0, 0640), Permission::read));
  EXPECT_TRUE(is_permitted(unknown, file(4'000'000, 0, 0400), Permission::read));
}

TEST(Permission, AclGrantsANamedUserWithinTheMask) {
  Acl acl;
  acl.add(kUserObj, 6).add(kUser, 4, kAlice).add(kGroupObj, 0).add(kMask, 4).add(kOther, 0);
  EXPECT_TRUE(may_read(file(0, 0, 0640, acl.bytes)));
  Acl masked;
  masked.add(kUserObj, 6).add(kUser, 4, kAlice).add(kGroupObj, 0).add(kMask, 0).add(kOther, 4);
  EXPECT_FALSE(may_read(file(0, 0, 0604, masked.bytes)));
}

TEST(Permission, AclDeniesNamedUserDespiteOtherBits) {
  Acl acl;
  acl.add(kUserObj, 6).add(kUser, 0, kAlice).add(kGroupObj, 4).add(kMask, 4).add(kOther, 4);
  EXPECT_FALSE(may_read(file(0, 0, 0644, acl.bytes)));
}

TEST(Permission, AclGrantsThroughAnyGroupAndElseDeniesMembers) {
  Acl acl;
  acl.add(kUserObj, 6).add(kGroupObj, 0).add(kGroup, 4, kStaff).add(kMask, 4).add(kOther, 0);
  EXPECT_TRUE(may_read(file(0, 0, 0640, acl.bytes)));
  Acl none;
  none.add(kUserObj, 6).add(kGroupObj, 0).add(kGroup, 0, kStaff).add(kMask, 4).add(kOther, 4);
  EXPECT_FALSE(may_read(file(0, 0, 0644, none.bytes)));
}

TEST(Permission, InvalidAclPermitsNothing) {
  EXPECT_FALSE(may_read(file(0, 0, 0644, "x")));
  EXPECT_FALSE(may_read(file(0, 0, 0644, std::string("\1\0\0\0", 4))));
  EXPECT_FALSE(may_read(file(0, 0, 0644, Acl().bytes + "odd")));
}

TEST(Permission, ReadsGroupsOfAccount) {
  const UserRights root = UserRights::of(0);
  EXPECT_TRUE(root.has_known_groups);
  EXPECT_NE(std::find(root.groups.begin(), root.groups.end(), 0), root.groups.end());
  EXPECT_FALSE(UserRights::of(4'000'000).has_known_groups);
}

}  // namespace
}  // namespace weightfs::permission_test
