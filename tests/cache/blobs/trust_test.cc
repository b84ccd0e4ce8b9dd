// Which directories a store trusts: files planted by others are neither read nor removed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/blob_store.h"
#include "tests/cache/store_fixture.h"

namespace weightfs::test::blobs_trust_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TrustTest : public StoreDirectory, public testing::WithParamInterface<std::string> {
 protected:
  // A directory of the store, relative to the cache directory.
  std::string folder() const { return directory + GetParam(); }
  void keep_one() {
    EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
    ASSERT_EQ(member->starts, 1);
  }
  // The store neither reads nor writes there.
  void expect_refused(const std::string& reason) {
    const auto before = files();
    EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
    EXPECT_EQ(member->starts, 2);
    EXPECT_EQ(files(), before);
    EXPECT_THAT(log, ElementsAre(HasSubstr(reason)));
  }
};

class EveryCacheDirectory : public TrustTest {};
INSTANTIATE_TEST_SUITE_P(Folders, EveryCacheDirectory,
                         testing::Values("", "/v1", "/v1/blobs", "/v1/index", "/v1/making"));

TEST_P(EveryCacheDirectory, IsRejectedWhenOthersMayWriteThere) {
  keep_one();
  std::filesystem::permissions(folder(), std::filesystem::perms(0720));
  expect_refused(GetParam() + ": writable by other users");
}

TEST_P(EveryCacheDirectory, IsRejectedWhenOwnedByAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives directories away";
  keep_one();
  ASSERT_EQ(::chown(folder().c_str(), 65534, 65534), 0);
  expect_refused(GetParam() + ": owned by another user, 65534");
}

class EveryCacheSubdirectory : public TrustTest {};
INSTANTIATE_TEST_SUITE_P(Folders, EveryCacheSubdirectory,
                         testing::Values("/v1", "/v1/blobs", "/v1/index", "/v1/making"));

TEST_P(EveryCacheSubdirectory, IsRejectedWhenSymbolicLink) {
  keep_one();
  std::filesystem::rename(folder(), temporary.path("elsewhere"));
  std::filesystem::create_symlink(temporary.path("elsewhere"), folder());
  expect_refused(GetParam() + ": Not a directory");
}

TEST_F(TrustTest, TargetOfSymbolicLinkIsNotSwept) {
  const std::string precious = temporary.write("victim/precious", "all that somebody has");
  std::filesystem::create_directories(directory + "/v1");
  std::filesystem::create_symlink(temporary.path("victim"), directory + "/v1/making");
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  EXPECT_TRUE(std::filesystem::exists(precious));
  EXPECT_THAT(blobs(), IsEmpty());
}

TEST_F(TrustTest, DirectoryOfAnotherUserIsNotSwept) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives directories away";
  const std::string theirs = temporary.write("deep/cache/v1/making/theirs", "what another user has");
  ASSERT_EQ(::chown((directory + "/v1").c_str(), 65534, 65534), 0);
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  EXPECT_TRUE(std::filesystem::exists(theirs));
}

TEST_F(TrustTest, CacheDirectoryMayBeSymbolicLink) {
  std::filesystem::create_directories(temporary.path("elsewhere"));
  std::filesystem::create_directories(temporary.path("deep"));
  std::filesystem::create_directory_symlink(temporary.path("elsewhere"), directory);
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  EXPECT_EQ(member->starts, 1);
}

}  // namespace
}  // namespace weightfs::test::blobs_trust_test
