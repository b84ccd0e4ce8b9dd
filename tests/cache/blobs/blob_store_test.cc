// A store in one process: what is kept, what is not, and what readers see.
#include "cache/blob_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "tests/cache/store_directory.h"

namespace weightfs::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using BlobStoreTest = StoreDirectory;

TEST_F(BlobStoreTest, KeepsABlobUnderItsDigestAndALinkToItUnderItsKey) {
  {
    const BlobsPtr blobs = store();
    EXPECT_EQ(read(*blobs->blob(recipe_of(member, "zip 1"))), told(bytes));
  }
  EXPECT_THAT(files(), ElementsAre(blob_path(bytes), "v1/index/" + sha256("zip 1").hex(), "v1/lock"));
  EXPECT_EQ(std::filesystem::read_symlink(directory + "/v1/index/" + sha256("zip 1").hex()), sha256(bytes).hex());
  struct stat status {};
  ASSERT_EQ(::stat((directory + "/" + blob_path(bytes)).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_EQ(status.st_size, static_cast<off_t>(kMember));
  ASSERT_EQ(::stat((directory + "/v1/making").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
}

TEST_F(BlobStoreTest, WritesNothingBeforeTheFirstBlob) {
  const auto blob = store()->blob(recipe_of(member, "zip 1"));
  EXPECT_EQ(blob->size(), kMember);
  EXPECT_FALSE(std::filesystem::exists(temporary.path("deep")));
  EXPECT_EQ(member->starts, 0);
}

TEST_F(BlobStoreTest, MakesABlobOnceForManyThreadsAndASecondStore) {
  {
    const BlobsPtr blobs = store();
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        const auto blob = blobs->blob(recipe_of(member, "zip 1"));
        for (size_t offset = 40'000 + t * 1000; offset < kMember; offset += 50'000)
          EXPECT_EQ(read(*blob, offset, 5000), told(bytes.substr(offset, 5000)));
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(read(*blobs->blob(recipe_of(member, "zip 1"))), told(bytes));
    EXPECT_EQ(member->starts, 1);
  }
  EXPECT_EQ(read(*store()->blob(recipe_of(member, "zip 1"))), told(bytes));
  EXPECT_EQ(member->starts, 1);
}

TEST_F(BlobStoreTest, FindsABlobByItsDigestWhateverItsKey) {
  Recipe first = recipe_of(member, "");
  first.digest = sha256(bytes);
  EXPECT_EQ(read(*store()->blob(first)), told(bytes));
  Recipe second = recipe_of(member, "other");
  second.digest = sha256(bytes);
  EXPECT_EQ(read(*store()->blob(second)), told(bytes));
  EXPECT_EQ(member->starts, 1);
}

TEST_F(BlobStoreTest, KeepsWhatNobodyElseCanFindForItsOwnReader) {
  const BlobsPtr blobs = store();
  const auto blob = blobs->blob(recipe_of(member, ""));
  EXPECT_EQ(read(*blob), told(bytes));
  EXPECT_EQ(read(*blob), told(bytes));
  EXPECT_EQ(member->starts, 1);
  EXPECT_EQ(read(*blobs->blob(recipe_of(member, ""))), told(bytes));
  EXPECT_EQ(member->starts, 2);
}

// A container may name any digest: what is made of the bytes must not be found by it before they have it.
TEST_F(BlobStoreTest, HasTheIdentityOfItsDigestOnceThatHasProvedRightElseOfItsKey) {
  Recipe recipe = recipe_of(member, "zip 1");
  EXPECT_EQ(store()->blob(recipe)->identity(), "zip 1");
  recipe.digest = sha256(bytes);
  BlobsPtr blobs = store();
  const auto blob = blobs->blob(recipe);
  EXPECT_EQ(blob->identity(), "zip 1");
  Gate middle;
  member->before = [&](size_t given) {
    if (given == 200'000) middle.pass();
  };
  EXPECT_EQ(read(*blob, 0, 5000), told(bytes.substr(0, 5000)));
  EXPECT_EQ(blob->identity(), "zip 1");
  middle.open();
  EXPECT_EQ(read(*blob), told(bytes));
  blobs = nullptr;  // returns when all is on disk
  EXPECT_EQ(blob->identity(), "sha256 " + sha256(bytes).hex());
  recipe.key = "zip 2";
  EXPECT_EQ(store()->blob(recipe)->identity(), "sha256 " + sha256(bytes).hex());  // found
  recipe.digest = sha256("others");
  const auto lie = store()->blob(recipe);
  EXPECT_THAT(read(*lie), HasSubstr("the digest of its bytes is"));
  EXPECT_EQ(lie->identity(), "zip 2");
}

TEST_F(BlobStoreTest, ServesBytesWhileLaterOnesAreMade) {
  Gate middle;
  member->before = [&](size_t given) {
    if (given == 200'000) middle.pass();
  };
  const BlobsPtr blobs = store();
  const auto blob = blobs->blob(recipe_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, 0, 100'000), told(bytes.substr(0, 100'000)));
  EXPECT_EQ(read(*blob, 100'000, 100'000), told(bytes.substr(100'000, 100'000)));
  EXPECT_THAT(this->blobs(), IsEmpty());
  middle.open();
  EXPECT_EQ(read(*blob), told(bytes));
  EXPECT_EQ(member->starts, 1);
}

TEST_F(BlobStoreTest, ServesTheLastByteOnlyAfterTheStreamSaidThatAllWasRight) {
  member->error = Error{Code::corrupt, "wrong checksum"};
  const auto blob = store()->blob(recipe_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, kMember - 1, 1), "error: wrong checksum");
}

TEST_F(BlobStoreTest, MakesNoFileOfSmallBlobsAndProvesThem) {
  const BlobsPtr blobs = store();
  const MakingPtr small = making(some_bytes(64 * 1024));
  const auto blob = blobs->blob(recipe_of(small, "zip 2"));
  EXPECT_EQ(read(*blob, 10, 20), told(small->bytes.substr(10, 20)));
  EXPECT_EQ(read(*blob), told(small->bytes));
  EXPECT_FALSE(std::filesystem::exists(directory));
  small->error = Error{Code::corrupt, "wrong checksum"};
  EXPECT_EQ(read(*blob, 0, 1), "error: wrong checksum");
  small->error = std::nullopt;
  Recipe wrong = recipe_of(small, "zip 2");
  wrong.digest = sha256("others");
  EXPECT_THAT(read(*blobs->blob(wrong), 0, 1), HasSubstr("not " + sha256("others").hex()));
}

TEST_F(BlobStoreTest, LooksAtAHeadWithoutMakingTheBlob) {
  size_t most = 0;
  member->before = [&](size_t given) { most = std::max(most, given); };
  member->piece = 1000;
  const auto blob = store()->blob(recipe_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, 0, 16), told(bytes.substr(0, 16)));
  EXPECT_EQ(read(*blob, 96, 4000), told(bytes.substr(96, 4000)));
  EXPECT_LE(most, 4096U);
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST_F(BlobStoreTest, IsAnOrdinarySource) {
  const auto blob = store()->blob(recipe_of(member, "zip 1"));
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(read(*blob, kMember - 5, 100), told(bytes.substr(kMember - 5)));
    EXPECT_EQ(read(*blob, kMember, 10), told(""));
    EXPECT_EQ(read(*blob, UINT64_MAX, 10), told(""));
    EXPECT_EQ(read(*blob, 7, 0), told(""));
  }
}

// A member whose bytes are not what its recipe promises.
struct Lie {
  std::string title;
  std::function<void(Making&, Recipe&)> tell;
  std::string error;
};

class ALie : public BlobStoreTest, public testing::WithParamInterface<Lie> {};

TEST_P(ALie, LeavesNothingBehindAndIsDecodedOnce) {
  Recipe recipe = recipe_of(member, "zip 1");
  bool promises_the_truth = false;
  {
    const BlobsPtr blobs = store();
    GetParam().tell(*member, recipe);
    const auto blob = blobs->blob(recipe);
    EXPECT_THAT(read(*blob), HasSubstr(GetParam().error));
    EXPECT_EQ(member->starts, 1);
    EXPECT_THAT(this->blobs(), IsEmpty());
    EXPECT_THAT(makings(), IsEmpty());
    // From now on not even the first byte is served, to no reader of what has the same name.
    EXPECT_THAT(read(*blob, 0, 1), HasSubstr(GetParam().error));
    EXPECT_THAT(read(*blobs->blob(recipe)), HasSubstr(GetParam().error));
    EXPECT_EQ(member->starts, 1);
    member->bytes = bytes;
    member->error = std::nullopt;
    promises_the_truth = recipe.size == kMember && (!recipe.digest || *recipe.digest == sha256(bytes));
    Recipe changed = recipe;
    changed.key = "zip 2";
    if (promises_the_truth) {
      EXPECT_EQ(read(*blobs->blob(changed)), told(bytes));
    }
  }
  if (promises_the_truth) {
    EXPECT_EQ(read(*store()->blob(recipe)), told(bytes));
  }
  EXPECT_THAT(makings(), IsEmpty());
  EXPECT_THAT(log, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Lies, ALie,
    testing::Values(
        Lie{"WrongChecksum",
            [](Making& m, Recipe&) {
              m.error = Error{Code::corrupt, "wrong checksum"};
            },
            "error: wrong checksum"},
        Lie{"WrongByte",
            [](Making& m, Recipe& r) {
              r.digest = sha256(m.bytes);
              ++m.bytes[kMember / 2];
            },
            "the digest of its bytes is"},
        Lie{"WrongDigest", [](Making&, Recipe& r) { r.digest = sha256("others"); }, "not " + sha256("others").hex()},
        Lie{"Short", [](Making& m, Recipe&) { m.bytes.resize(kMember - 1); }, "member: ends at byte 299999 of 300000"},
        Lie{"Long", [](Making& m, Recipe&) { m.bytes += 'x'; }, "member: longer than the 300000 bytes"},
        Lie{"Empty", [](Making& m, Recipe&) { m.bytes.clear(); }, "member: ends at byte 0 of 300000"}),
    [](const auto& instance) { return instance.param.title; });

TEST_F(BlobStoreTest, AFailureToStartIsTheReaders) {
  Recipe recipe = recipe_of(member, "zip 1");
  bool offline = true;
  recipe.start = [&, start = recipe.start]() -> Result<StreamPtr> {
    if (offline) return failure(Code::resource, "offline");
    return start();
  };
  const auto blob = store()->blob(recipe);
  EXPECT_EQ(read(*blob), "error: offline");
  offline = false;
  EXPECT_EQ(read(*blob), told(bytes));
}

TEST_F(BlobStoreTest, WhatIsKeptUnderOneDigestIsNotServedUnderAnother) {
  const BlobsPtr blobs = store();
  EXPECT_EQ(read(*blobs->blob(recipe_of(member, "zip 1"))), told(bytes));
  Recipe wrong = recipe_of(member, "zip 1");
  wrong.digest = sha256("others");
  EXPECT_THAT(read(*blobs->blob(wrong)), HasSubstr("error: member: the digest of its bytes is"));
}

// A container may name any digest for its bytes; readers of another container, of which it is true, must not see them.
TEST_F(BlobStoreTest, UnprovedBytesAreSharedByKeyNotByPromisedDigest) {
  Gate middle;
  const MakingPtr lying = making(some_bytes(kMember, 2));
  lying->before = [&](size_t given) {
    if (given == 200'000) middle.pass();
  };
  const BlobsPtr blobs = store();
  Recipe lie = recipe_of(lying, "zip of lies");
  Recipe truth = recipe_of(member, "zip 1");
  lie.digest = truth.digest = sha256(bytes);
  const auto wrong = blobs->blob(lie);
  EXPECT_EQ(read(*wrong, 0, 5000), told(lying->bytes.substr(0, 5000)));
  EXPECT_EQ(read(*blobs->blob(truth), 0, 5000), told(bytes.substr(0, 5000)));
  middle.open();
}

TEST_F(BlobStoreTest, ABlobFileThatWasCutIsMadeAgain) {
  EXPECT_EQ(read(*store()->blob(recipe_of(member, "zip 1"))), told(bytes));
  const std::string path = directory + "/" + blob_path(bytes);
  std::filesystem::resize_file(path, 5);
  EXPECT_EQ(read(*store()->blob(recipe_of(member, "zip 1"))), told(bytes));
  EXPECT_EQ(member->starts, 2);
  EXPECT_EQ(std::filesystem::file_size(path), kMember);
}

TEST_F(BlobStoreTest, ABlobStaysThereWhateverSizeAnotherContainerTellsOfItsDigest) {
  EXPECT_EQ(read(*store()->blob(recipe_of(member, "zip 1"))), told(bytes));
  Recipe lie = recipe_of(making(some_bytes(kMember + 1, 2)), "zip of lies");
  lie.digest = sha256(bytes);
  EXPECT_THAT(read(*store()->blob(lie)), HasSubstr("the digest of its bytes is"));
  EXPECT_TRUE(std::filesystem::exists(directory + "/" + blob_path(bytes)));
  EXPECT_EQ(read(*store()->blob(recipe_of(member, "zip 1"))), told(bytes));
  EXPECT_EQ(member->starts, 1);
}

TEST_F(BlobStoreTest, ADirectoryThatWentAwayIsMadeAgain) {
  const BlobsPtr blobs = store();
  Recipe recipe = recipe_of(member, "zip 1");
  recipe.size = std::nullopt;  // made() returns when all is on disk
  const auto open = blobs->made(recipe);
  ASSERT_TRUE(open);
  std::filesystem::remove_all(directory);
  EXPECT_EQ(read(**open), told(bytes));
  const MakingPtr other = making(some_bytes(kMember, 2));
  EXPECT_EQ(read(*blobs->blob(recipe_of(other, "zip 2"))), told(other->bytes));
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(BlobStoreTest, AnotherMakingOfTheSameNameIsNotTakenForItsOwn) {
  Gate middle;
  member->before = [&](size_t given) {
    if (given == 200'000) middle.pass();
  };
  const BlobsPtr blobs = store();
  const auto blob = blobs->blob(recipe_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, 100'000, 5000), told(bytes.substr(100'000, 5000)));
  ASSERT_THAT(makings(), SizeIs(1));
  const std::string path = directory + "/v1/making/" + makings()[0];
  std::filesystem::remove(path);
  std::ofstream(path) << "what another process has so far";
  middle.open();
  EXPECT_EQ(read(*blob), told(bytes));
  EXPECT_EQ(read(*store()->blob(recipe_of(making("others"), "zip 2"))), told("others"));
  EXPECT_EQ(read(*store()->blob(recipe_of(member, "zip 1"))), told(bytes));
  for (const std::string& kept : this->blobs())
    EXPECT_EQ(std::filesystem::file_size(directory + "/v1/blobs/" + kept), kMember);
}

TEST_F(BlobStoreTest, KeepsFewFilesOpen) {
  const auto open_now = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = open_now();
  const BlobsPtr blobs = store();
  std::vector<SourcePtr> sources;
  std::vector<MakingPtr> makings;
  for (uint32_t i = 0; i < 200; ++i) {
    makings.push_back(making(some_bytes(70'000, i)));
    sources.push_back(blobs->blob(recipe_of(makings.back(), str("zip ", i))));
  }
  for (int again = 0; again < 2; ++again)
    for (size_t i = 0; i < sources.size(); ++i) ASSERT_EQ(read(*sources[i]), told(makings[i]->bytes));
  // Those being published have theirs and the store's lock open.
  EXPECT_LE(open_now() - before, 128 + 3 * 4);
  for (const auto& made : makings) EXPECT_EQ(made->starts, 1);
}

TEST_F(BlobStoreTest, MeasuresABlobOfUnknownSizeByMakingItOnce) {
  Recipe recipe = recipe_of(member, "tar.gz 1");
  recipe.size = std::nullopt;
  {
    const BlobsPtr blobs = store();
    const auto made = blobs->made(recipe);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ((*made)->size(), kMember);
    EXPECT_EQ((*made)->identity(), "sha256 " + sha256(bytes).hex());
    EXPECT_EQ(read(**made), told(bytes));
  }
  // Its first 64 KiB were made twice: to see that it is not small.
  EXPECT_EQ(member->starts, 2);
  EXPECT_THAT(blobs(), SizeIs(1));
  EXPECT_EQ(read(**store()->made(recipe)), told(bytes));
  EXPECT_EQ(member->starts, 2);
}

TEST_F(BlobStoreTest, AllocatesNoMoreForABlobOfUnknownSizeThanItTakes) {
  Recipe recipe = recipe_of(member, "tar.gz 1");
  recipe.size = std::nullopt;
  ASSERT_TRUE(store()->made(recipe));
  EXPECT_LE(allocated_in(directory + "/v1/blobs"), kMember + 8192);
}

TEST_F(BlobStoreTest, ABlobOfUnknownSizeFailsBeforeItIsReturned) {
  member->error = Error{Code::corrupt, "wrong checksum"};
  Recipe recipe = recipe_of(member, "tar.gz 1");
  recipe.size = std::nullopt;
  EXPECT_EQ(store()->made(recipe).error().message, "wrong checksum");
  EXPECT_THAT(blobs(), IsEmpty());
  EXPECT_THAT(makings(), IsEmpty());
}

TEST_F(BlobStoreTest, ASmallBlobOfUnknownSizeMakesNoFile) {
  const MakingPtr small = making("some text");
  Recipe recipe = recipe_of(small, "gz 1");
  recipe.size = std::nullopt;
  const auto made = store()->made(recipe);
  ASSERT_TRUE(made);
  EXPECT_EQ(read(**made), told("some text"));
  EXPECT_FALSE(std::filesystem::exists(directory));
}

}  // namespace
}  // namespace weightfs::test
