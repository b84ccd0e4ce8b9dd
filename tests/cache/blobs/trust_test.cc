// Which directories a store uses: what somebody else put in its place is neither read nor removed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/blob_store.h"
#include "tests/cache/store_directory.h"

namespace weightfs::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TrustTest : public StoreDirectory, public testing::WithParamInterface<std::string> {
 protected:
  // One of the store's directories, by the path below the one that the user named.
  std::string folder() const { return directory + GetParam(); }
  void keep_one() {
    EXPECT_EQ(read(*store()->blob(recipe_of(member, "zip 1"))), told(bytes));
    ASSERT_EQ(member->starts, 1);
  }
  // What is kept there is not used, and nothing more is kept.
  void expect_refused(const std::string& reason) {
    const auto before = files();
    EXPECT_EQ(read(*store()->blob(recipe_of(member, "zip 1"))), told(bytes));
    EXPECT_EQ(member->starts, 2);
    EXPECT_EQ(files(), before);
    EXPECT_THAT(log, ElementsAre(HasSubstr(reason)));
  }
};

class EveryFolder : public TrustTest {};
INSTANTIATE_TEST_SUITE_P(Folders, EveryFolder, testing::Values("", "/v1", "/v1/blobs", "/v1/index", "/v1/making"));

TEST_P(EveryFolder, IsNotUsedWhenOthersMayWriteThere) {
  keep_one();
  std::filesystem::permissions(folder(), std::filesystem::perms(0720));
  expect_refused(GetParam() + ": others may write there");
}

TEST_P(EveryFolder, IsNotUsedWhenItIsAnotherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives directories away";
  keep_one();
  ASSERT_EQ(::chown(folder().c_str(), 65534, 65534), 0);
  expect_refused(GetParam() + ": belongs to another user, 65534");
}

class EveryInnerFolder : public TrustTest {};
INSTANTIATE_TEST_SUITE_P(Folders, EveryInnerFolder, testing::Values("/v1", "/v1/blobs", "/v1/index", "/v1/making"));

TEST_P(EveryInnerFolder, IsNotUsedThroughASymbolicLink) {
  keep_one();
  std::filesystem::rename(folder(), temporary.path("elsewhere"));
  std::filesystem::create_symlink(temporary.path("elsewhere"), folder());
  expect_refused(GetParam() + ": Not a directory");
}

TEST_F(TrustTest, WhatASymbolicLinkLeadsToIsNotSwept) {
  const std::string precious = temporary.write("victim/precious", "all that somebody has");
  std::filesystem::create_directories(directory + "/v1");
  std::filesystem::create_symlink(temporary.path("victim"), directory + "/v1/making");
  EXPECT_EQ(read(*store()->blob(recipe_of(member, "zip 1"))), told(bytes));
  EXPECT_TRUE(std::filesystem::exists(precious));
  EXPECT_THAT(blobs(), IsEmpty());
}

TEST_F(TrustTest, WhatIsInAnotherUsersDirectoryIsNotSwept) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives directories away";
  const std::string theirs = temporary.write("deep/cache/v1/making/theirs", "what another user has");
  ASSERT_EQ(::chown((directory + "/v1").c_str(), 65534, 65534), 0);
  EXPECT_EQ(read(*store()->blob(recipe_of(member, "zip 1"))), told(bytes));
  EXPECT_TRUE(std::filesystem::exists(theirs));
}

TEST_F(TrustTest, TheDirectoryItselfMayBeASymbolicLink) {
  std::filesystem::create_directories(temporary.path("elsewhere"));
  std::filesystem::create_directories(temporary.path("deep"));
  std::filesystem::create_directory_symlink(temporary.path("elsewhere"), directory);
  EXPECT_EQ(read(*store()->blob(recipe_of(member, "zip 1"))), told(bytes));
  EXPECT_EQ(read(*store()->blob(recipe_of(member, "zip 1"))), told(bytes));
  EXPECT_EQ(member->starts, 1);
}

}  // namespace
}  // namespace weightfs::test
