// One store in one process: the contents of the cache, and the results of readers.
#include "cache/blob_store.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "tests/cache/store_fixture.h"

namespace weightfs::test::blob_store_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using BlobStoreTest = StoreDirectory;

TEST_F(BlobStoreTest, StoresBlobByDigestAndLinksItByKey) {
  {
    const BlobsPtr blobs = store();
    EXPECT_EQ(read(*blobs->blob(producer_of(member, "zip 1"))), describe(bytes));
  }
  EXPECT_THAT(files(), ElementsAre(blob_path(bytes), "v1/index/" + sha256("zip 1").hex(), "v1/lock",
                                   "v1/names/" + sha256(bytes).hex()));
  EXPECT_EQ(std::filesystem::read_symlink(directory + "/v1/index/" + sha256("zip 1").hex()), sha256(bytes).hex());
  struct stat status {};
  ASSERT_EQ(::stat((directory + "/" + blob_path(bytes)).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_EQ(status.st_size, static_cast<off_t>(kMember));
  ASSERT_EQ(::stat((directory + "/v1/making").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
}

TEST_F(BlobStoreTest, WritesNothingBeforeFirstBlob) {
  const auto blob = store()->blob(producer_of(member, "zip 1"));
  EXPECT_EQ(blob->size(), kMember);
  EXPECT_FALSE(std::filesystem::exists(temporary.path("deep")));
  EXPECT_EQ(member->starts, 0);
}

TEST_F(BlobStoreTest, MaterializesBlobOnceForManyThreadsAndSecondStore) {
  {
    const BlobsPtr blobs = store();
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        const auto blob = blobs->blob(producer_of(member, "zip 1"));
        for (size_t offset = 40'000 + t * 1000; offset < kMember; offset += 50'000)
          EXPECT_EQ(read(*blob, offset, 5000), describe(bytes.substr(offset, 5000)));
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(read(*blobs->blob(producer_of(member, "zip 1"))), describe(bytes));
    EXPECT_EQ(member->starts, 1);
  }
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  EXPECT_EQ(member->starts, 1);
}

TEST_F(BlobStoreTest, FindsBlobByDigestWithAnyKey) {
  BlobProducer first = producer_of(member, "");
  first.digest = sha256(bytes);
  EXPECT_EQ(read(*store()->blob(first)), describe(bytes));
  BlobProducer second = producer_of(member, "other");
  second.digest = sha256(bytes);
  EXPECT_EQ(read(*store()->blob(second)), describe(bytes));
  EXPECT_EQ(member->starts, 1);
}

TEST_F(BlobStoreTest, BlobWithoutKeyIsCachedForItsReader) {
  const BlobsPtr blobs = store();
  const auto blob = blobs->blob(producer_of(member, ""));
  EXPECT_EQ(read(*blob), describe(bytes));
  EXPECT_EQ(read(*blob), describe(bytes));
  EXPECT_EQ(member->starts, 1);
  EXPECT_EQ(read(*blobs->blob(producer_of(member, ""))), describe(bytes));
  EXPECT_EQ(member->starts, 2);
}

// A container may declare any digest: a blob must not be found by it before verification.
TEST_F(BlobStoreTest, IdentityIsDigestAfterVerificationAndKeyBefore) {
  BlobProducer producer = producer_of(member, "zip 1");
  EXPECT_EQ(store()->blob(producer)->identity(), "zip 1");
  producer.digest = sha256(bytes);
  BlobsPtr blobs = store();
  const auto blob = blobs->blob(producer);
  EXPECT_EQ(blob->identity(), "zip 1");
  Gate middle;
  member->before = [&](size_t given) {
    if (given == 200'000) middle.wait();
  };
  EXPECT_EQ(read(*blob, 0, 5000), describe(bytes.substr(0, 5000)));
  EXPECT_EQ(blob->identity(), "zip 1");
  middle.open();
  EXPECT_EQ(read(*blob), describe(bytes));
  blobs = nullptr;  // waits until everything is on disk
  EXPECT_EQ(blob->identity(), "sha256 " + sha256(bytes).hex());
  producer.key = "zip 2";
  EXPECT_EQ(store()->blob(producer)->identity(), "sha256 " + sha256(bytes).hex());  // found
  producer.digest = sha256("others");
  const auto lie = store()->blob(producer);
  EXPECT_THAT(read(*lie), HasSubstr("digest mismatch: found"));
  EXPECT_EQ(lie->identity(), "zip 2");
}

TEST_F(BlobStoreTest, ServesBytesWhileLaterBytesAreProduced) {
  Gate middle;
  member->before = [&](size_t given) {
    if (given == 200'000) middle.wait();
  };
  const BlobsPtr blobs = store();
  const auto blob = blobs->blob(producer_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, 0, 100'000), describe(bytes.substr(0, 100'000)));
  EXPECT_EQ(read(*blob, 100'000, 90'000), describe(bytes.substr(100'000, 90'000)));  // in whole blocks
  EXPECT_THAT(this->blobs(), IsEmpty());
  middle.open();
  EXPECT_EQ(read(*blob), describe(bytes));
  EXPECT_EQ(member->starts, 1);
}

TEST_F(BlobStoreTest, ServesLastByteOnlyAfterStreamVerifiedAllBytes) {
  member->error = Error{Code::corrupt, "wrong checksum"};
  const auto blob = store()->blob(producer_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, kMember - 1, 1), "error: wrong checksum");
}

TEST_F(BlobStoreTest, VerifiesSmallBlobsAndCreatesNoFiles) {
  const BlobsPtr blobs = store();
  const TestProducerPtr small = test_producer(some_bytes(64 * 1024));
  const auto blob = blobs->blob(producer_of(small, "zip 2"));
  EXPECT_EQ(read(*blob, 10, 20), describe(small->bytes.substr(10, 20)));
  EXPECT_EQ(read(*blob), describe(small->bytes));
  EXPECT_FALSE(std::filesystem::exists(directory));
  small->error = Error{Code::corrupt, "wrong checksum"};
  EXPECT_EQ(read(*blob, 0, 1), "error: wrong checksum");
  small->error = std::nullopt;
  BlobProducer wrong = producer_of(small, "zip 2");
  wrong.digest = sha256("others");
  EXPECT_THAT(read(*blobs->blob(wrong), 0, 1), HasSubstr("expected " + sha256("others").hex()));
}

TEST_F(BlobStoreTest, ReadsHeaderWithoutMaterializingBlob) {
  size_t most = 0;
  member->before = [&](size_t given) { most = std::max(most, given); };
  member->piece = 1000;
  const auto blob = store()->blob(producer_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, 0, 16), describe(bytes.substr(0, 16)));
  EXPECT_EQ(read(*blob, 96, 4000), describe(bytes.substr(96, 4000)));
  EXPECT_LE(most, 4096U);
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST_F(BlobStoreTest, BlobWithACostlyStartIsCachedByTheFirstReadOfItsHeader) {
  BlobProducer producer = producer_of(member, "zip 1");
  producer.costly_start = true;
  const BlobsPtr blobs = store();
  const auto blob = blobs->blob(std::move(producer));
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(read(*blob, 0, 16), describe(bytes.substr(0, 16)));
    EXPECT_EQ(read(*blob, kMember - 5, 100), describe(bytes.substr(kMember - 5)));
  }
  EXPECT_EQ(member->starts, 1);
}

TEST_F(BlobStoreTest, SatisfiesTheSourceContract) {
  const auto blob = store()->blob(producer_of(member, "zip 1"));
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(read(*blob, kMember - 5, 100), describe(bytes.substr(kMember - 5)));
    EXPECT_EQ(read(*blob, kMember, 10), describe(""));
    EXPECT_EQ(read(*blob, UINT64_MAX, 10), describe(""));
    EXPECT_EQ(read(*blob, 7, 0), describe(""));
  }
}

// A member whose bytes differ from its declaration.
struct Lie {
  std::string title;
  std::function<void(TestProducer&, BlobProducer&)> tell;
  std::string error;
};

class FalseDeclaration : public BlobStoreTest, public testing::WithParamInterface<Lie> {};

TEST_P(FalseDeclaration, LeavesNoFilesAndIsDecodedOnce) {
  BlobProducer producer = producer_of(member, "zip 1");
  bool promises_the_truth = false;
  {
    const BlobsPtr blobs = store();
    GetParam().tell(*member, producer);
    const auto blob = blobs->blob(producer);
    EXPECT_THAT(read(*blob), HasSubstr(GetParam().error));
    EXPECT_EQ(member->starts, 1);
    EXPECT_THAT(this->blobs(), IsEmpty());
    EXPECT_THAT(making_files(), IsEmpty());
    // Later reads of that blob fail.
    EXPECT_THAT(read(*blob, 0, 1), HasSubstr(GetParam().error));
    EXPECT_THAT(read(*blobs->blob(producer)), HasSubstr(GetParam().error));
    EXPECT_EQ(member->starts, 1);
    member->bytes = bytes;
    member->error = std::nullopt;
    promises_the_truth = producer.size == kMember && (!producer.digest || *producer.digest == sha256(bytes));
    BlobProducer changed = producer;
    changed.key = "zip 2";
    if (promises_the_truth) {
      EXPECT_EQ(read(*blobs->blob(changed)), describe(bytes));
    }
  }
  if (promises_the_truth) {
    EXPECT_EQ(read(*store()->blob(producer)), describe(bytes));
  }
  EXPECT_THAT(making_files(), IsEmpty());
  EXPECT_THAT(log, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Lies, FalseDeclaration,
    testing::Values(Lie{"WrongChecksum",
                        [](TestProducer& m, BlobProducer&) {
                          m.error = Error{Code::corrupt, "wrong checksum"};
                        },
                        "error: wrong checksum"},
                    Lie{"WrongByte",
                        [](TestProducer& m, BlobProducer& r) {
                          r.digest = sha256(m.bytes);
                          ++m.bytes[kMember / 2];
                        },
                        "digest mismatch: found"},
                    Lie{"WrongDigest", [](TestProducer&, BlobProducer& r) { r.digest = sha256("others"); },
                        "expected " + sha256("others").hex()},
                    Lie{"Short", [](TestProducer& m, BlobProducer&) { m.bytes.resize(kMember - 1); },
                        "member: ends at byte 299999 of 300000"},
                    Lie{"Long", [](TestProducer& m, BlobProducer&) { m.bytes += 'x'; },
                        "member: longer than the 300000 declared bytes"},
                    Lie{"Empty", [](TestProducer& m, BlobProducer&) { m.bytes.clear(); },
                        "member: ends at byte 0 of 300000"}),
    [](const auto& instance) { return instance.param.title; });

TEST_F(BlobStoreTest, FailureToStartIsReportedToReader) {
  BlobProducer producer = producer_of(member, "zip 1");
  bool offline = true;
  producer.start = [&, start = producer.start]() -> Result<StreamPtr> {
    if (offline) return failure(Code::resource, "offline");
    return start();
  };
  const auto blob = store()->blob(producer);
  EXPECT_EQ(read(*blob), "error: offline");
  offline = false;
  EXPECT_EQ(read(*blob), describe(bytes));
}

TEST_F(BlobStoreTest, CachedBlobIsNotServedUnderAnotherDigest) {
  const BlobsPtr blobs = store();
  EXPECT_EQ(read(*blobs->blob(producer_of(member, "zip 1"))), describe(bytes));
  BlobProducer wrong = producer_of(member, "zip 1");
  wrong.digest = sha256("others");
  EXPECT_THAT(read(*blobs->blob(wrong)), HasSubstr("error: member: digest mismatch: found"));
}

// A container may declare any digest for its bytes; readers of another container with the true digest must not see
// them.
TEST_F(BlobStoreTest, UnverifiedBytesAreSharedByKeyNotByDeclaredDigest) {
  Gate middle;
  const TestProducerPtr lying = test_producer(some_bytes(kMember, 2));
  lying->before = [&](size_t given) {
    if (given == 200'000) middle.wait();
  };
  const BlobsPtr blobs = store();
  BlobProducer lie = producer_of(lying, "zip of lies");
  BlobProducer truth = producer_of(member, "zip 1");
  lie.digest = truth.digest = sha256(bytes);
  const auto wrong = blobs->blob(lie);
  EXPECT_EQ(read(*wrong, 0, 5000), describe(lying->bytes.substr(0, 5000)));
  EXPECT_EQ(read(*blobs->blob(truth), 0, 5000), describe(bytes.substr(0, 5000)));
  middle.open();
}

TEST_F(BlobStoreTest, TruncatedBlobFileIsMaterializedAgain) {
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  const std::string path = directory + "/" + blob_path(bytes);
  std::filesystem::resize_file(path, 5);
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  EXPECT_EQ(member->starts, 2);
  EXPECT_EQ(std::filesystem::file_size(path), kMember);
}

TEST_F(BlobStoreTest, BlobSurvivesWrongSizeDeclaredByAnotherContainer) {
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  BlobProducer lie = producer_of(test_producer(some_bytes(kMember + 1, 2)), "zip of lies");
  lie.digest = sha256(bytes);
  EXPECT_THAT(read(*store()->blob(lie)), HasSubstr("digest mismatch: found"));
  EXPECT_TRUE(std::filesystem::exists(directory + "/" + blob_path(bytes)));
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  EXPECT_EQ(member->starts, 1);
}

TEST_F(BlobStoreTest, RemovedDirectoryIsCreatedAgain) {
  const BlobsPtr blobs = store();
  BlobProducer producer = producer_of(member, "zip 1");
  producer.size = std::nullopt;  // materialize() returns when everything is on disk
  const auto open = blobs->materialize(producer);
  ASSERT_TRUE(open);
  std::filesystem::remove_all(directory);
  EXPECT_EQ(read(**open), describe(bytes));
  const TestProducerPtr other = test_producer(some_bytes(kMember, 2));
  EXPECT_EQ(read(*blobs->blob(producer_of(other, "zip 2"))), describe(other->bytes));
  EXPECT_THAT(log, IsEmpty());
}

// The files of the first writer were removed, and another process writes the same blob.
TEST_F(BlobStoreTest, FileOfAnotherWriterWithSameNameIsNotRemoved) {
  Gate middle;
  const auto stops_at = [](Gate& gate) {
    return [&gate](size_t given) {
      if (given == 200'000) gate.wait();
    };
  };
  member->before = stops_at(middle);
  const BlobsPtr blobs = store();
  const auto blob = blobs->blob(producer_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, 100'000, 5000), describe(bytes.substr(100'000, 5000)));
  for (const std::string& file : making_files()) std::filesystem::remove(fmt::format("{}/v1/{}", directory, file));
  Gate rest;
  const TestProducerPtr theirs = test_producer(bytes);
  theirs->before = stops_at(rest);
  const BlobsPtr second = store();
  const auto their_blob = second->blob(producer_of(theirs, "zip 1"));
  EXPECT_EQ(read(*their_blob, 100'000, 5000), describe(bytes.substr(100'000, 5000)));
  const auto their_files = making_files();
  EXPECT_THAT(their_files, SizeIs(2));
  middle.open();
  EXPECT_EQ(read(*blob), describe(bytes));
  EXPECT_EQ(making_files(), their_files);
  rest.open();
  EXPECT_EQ(read(*their_blob), describe(bytes));
  EXPECT_EQ(theirs->starts, 1);
  EXPECT_THAT(remaining_making_files(), IsEmpty());
  EXPECT_THAT(this->blobs(), SizeIs(1));
}

TEST_F(BlobStoreTest, LimitsOpenFiles) {
  const auto open_now = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = open_now();
  const BlobsPtr blobs = store();
  std::vector<SourcePtr> sources;
  std::vector<TestProducerPtr> making_files;
  for (uint32_t i = 0; i < 200; ++i) {
    making_files.push_back(test_producer(some_bytes(70'000, i)));
    sources.push_back(blobs->blob(producer_of(making_files.back(), fmt::format("zip {}", i))));
  }
  for (int again = 0; again < 2; ++again)
    for (size_t i = 0; i < sources.size(); ++i) ASSERT_EQ(read(*sources[i]), describe(making_files[i]->bytes));
  // Blobs that are being published also have their file, its map and the store's lock open.
  EXPECT_LE(open_now() - before, 128 + 4 * 4);
  for (const auto& made : making_files) EXPECT_EQ(made->starts, 1);
}

TEST_F(BlobStoreTest, MeasuresBlobOfUnknownSizeByMaterializingItOnce) {
  BlobProducer producer = producer_of(member, "tar.gz 1");
  producer.size = std::nullopt;
  {
    const BlobsPtr blobs = store();
    const auto made = blobs->materialize(producer);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ((*made)->size(), kMember);
    EXPECT_EQ((*made)->identity(), "sha256 " + sha256(bytes).hex());
    EXPECT_EQ(read(**made), describe(bytes));
  }
  // The first 64 KiB were produced twice, to detect that it is not small.
  EXPECT_EQ(member->starts, 2);
  EXPECT_THAT(blobs(), SizeIs(1));
  EXPECT_EQ(read(**store()->materialize(producer)), describe(bytes));
  EXPECT_EQ(member->starts, 2);
}

TEST_F(BlobStoreTest, AllocatesOnlyTheFinalSizeForBlobOfUnknownSize) {
  BlobProducer producer = producer_of(member, "tar.gz 1");
  producer.size = std::nullopt;
  ASSERT_TRUE(store()->materialize(producer));
  EXPECT_LE(allocated_in(directory + "/v1/blobs"), kMember + 8192);
}

TEST_F(BlobStoreTest, FailureOfBlobOfUnknownSizeIsReportedBeforeReturn) {
  member->error = Error{Code::corrupt, "wrong checksum"};
  BlobProducer producer = producer_of(member, "tar.gz 1");
  producer.size = std::nullopt;
  EXPECT_EQ(store()->materialize(producer).error().message, "wrong checksum");
  EXPECT_THAT(blobs(), IsEmpty());
  EXPECT_THAT(making_files(), IsEmpty());
}

// A server may have sent other bytes than a manifest states, and sends the right ones now.
TEST_F(BlobStoreTest, MismatchOfBlobOfUnknownSizeIsNotRemembered) {
  BlobProducer producer = producer_of(member, "tar.gz 1");
  producer.size = std::nullopt;
  const BlobsPtr blobs = store();
  for (const Code code : {Code::mismatch, Code::corrupt}) {
    member->error = Error{code, "wrong bytes"};
    EXPECT_EQ(blobs->materialize(producer).error().message, "wrong bytes");
    member->error = std::nullopt;
    const auto made = blobs->materialize(producer);
    EXPECT_EQ(made.has_value(), code == Code::mismatch);
    producer.key = "tar.gz 2";
  }
}

TEST_F(BlobStoreTest, SmallBlobOfUnknownSizeCreatesNoFile) {
  const TestProducerPtr small = test_producer("some text");
  BlobProducer producer = producer_of(small, "gz 1");
  producer.size = std::nullopt;
  const auto made = store()->materialize(producer);
  ASSERT_TRUE(made);
  EXPECT_EQ(read(**made), describe("some text"));
  EXPECT_FALSE(std::filesystem::exists(directory));
}

}  // namespace
}  // namespace weightfs::test::blob_store_test
