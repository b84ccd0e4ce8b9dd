// One cache, used by several processes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/descriptor.h"
#include "cache/blob_store.h"
#include "cache/blocks/block_file.h"
#include "cache/maintenance.h"
#include "tests/cache/child_process.h"
#include "tests/cache/store_fixture.h"

namespace weightfs::test::processes_test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr int kPass = 0;
constexpr int kFail = 1;

class ProcessesTest : public StoreDirectory {
 protected:
  // Reads the bytes that a paused producer has written, then, after it continues, all bytes.
  int reads_early_and_all(Shared& shared) {
    wait_for(shared.first);
    const BlobsPtr blobs = store();
    const auto blob = blobs->blob(producer_of(member, "zip 1"));
    const bool early = read(*blob, 100'000, 50'000) == describe(bytes.substr(100'000, 50'000));
    ::sem_post(&shared.second);
    return early && read(*blob) == describe(bytes) ? kPass : kFail;
  }
};

// Reads the whole blob from a new store.
int reads_all(const BlobsPtr& blobs, const TestProducerPtr& member) {
  return read(*blobs->blob(producer_of(member, "zip 1"))) == describe(member->bytes) ? kPass : kFail;
}

TEST_F(ProcessesTest, BlobOfOneProcessIsFoundByAnother) {
  Child child([&] { return reads_all(store(), member); });
  EXPECT_EQ(child.wait(), kPass);
  EXPECT_EQ(reads_all(store(), member), kPass);
  EXPECT_EQ(member->starts, 0);  // of this process
}

TEST_F(ProcessesTest, TwoReadersShareOneProducerAndSeeBytesEarly) {
  const auto shared = shared_memory();
  member->before = [&](size_t given) {
    if (given == 0) ++shared->starts;
    if (given != 200'000) return;
    ::sem_post(&shared->first);
    wait_for(shared->second);
  };
  Child maker([&] { return reads_all(store(), member); });
  Child follower([&] { return reads_early_and_all(*shared); });
  EXPECT_EQ(maker.wait(), kPass);
  EXPECT_EQ(follower.wait(), kPass);
  EXPECT_EQ(shared->starts, 1);
  EXPECT_THAT(blobs(), SizeIs(1));
  EXPECT_THAT(making_files(), IsEmpty());
}

TEST_F(ProcessesTest, FollowerTakesOverWhenProducerIsKilled) {
  const auto shared = shared_memory();
  member->before = [&](size_t given) {
    if (given == 0) ++shared->starts;
    if (given != 200'000 || shared->starts > 1) return;
    ::sem_post(&shared->first);
    wait_for(shared->second);
    ::raise(SIGKILL);
  };
  Child maker([&] { return reads_all(store(), member); });
  Child follower([&] { return reads_early_and_all(*shared); });
  EXPECT_EQ(maker.wait(), 128 + SIGKILL);
  EXPECT_EQ(follower.wait(), kPass);
  EXPECT_EQ(shared->starts, 2);
  EXPECT_THAT(blobs(), SizeIs(1));
  EXPECT_THAT(making_files(), IsEmpty());
}

TEST_F(ProcessesTest, FollowerReadsUncachedWhenProducerIsStopped) {
  const auto shared = shared_memory();
  member->before = [&](size_t given) {
    if (given == 0) ++shared->starts;
    if (given != 200'000 || shared->starts > 1) return;
    ::sem_post(&shared->first);
    ::raise(SIGSTOP);
  };
  Child maker([&] { return reads_all(store(), member); });
  wait_for(shared->first);
  Child follower([&] { return reads_all(store(), member) == kPass && log.size() == 1 ? kPass : kFail; });
  EXPECT_EQ(follower.wait(), kPass);
  EXPECT_EQ(shared->starts, 2);
  EXPECT_THAT(blobs(), IsEmpty());
  maker.resume();
  EXPECT_EQ(maker.wait(), kPass);
  EXPECT_THAT(blobs(), SizeIs(1));
}

TEST_F(ProcessesTest, FollowerRetriesWhenProducerFails) {
  const auto shared = shared_memory();
  member->before = [&](size_t given) {
    if (given == 0) ++shared->starts;
    if (given != 200'000 || shared->starts > 1) return;
    ::sem_post(&shared->first);
    wait_for(shared->second);
    member->error = Error{Code::resource, "connection lost"};
    member->bytes.resize(200'000);
  };
  Child maker(
      [&] { return read(*store()->blob(producer_of(member, "zip 1"))) == "error: connection lost" ? kPass : kFail; });
  Child follower([&] { return reads_early_and_all(*shared); });
  EXPECT_EQ(maker.wait(), kPass);
  EXPECT_EQ(follower.wait(), kPass);
  EXPECT_EQ(shared->starts, 2);
}

TEST_F(ProcessesTest, ConcurrentProcessesMaterializeBlobOnce) {
  const auto shared = shared_memory();
  member->before = [&](size_t given) {
    if (given == 0) ++shared->starts;
  };
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 6; ++i) children.push_back(std::make_unique<Child>([&] { return reads_all(store(), member); }));
  for (const auto& child : children) EXPECT_EQ(child->wait(), kPass);
  EXPECT_EQ(shared->starts, 1);
  EXPECT_THAT(making_files(), IsEmpty());
}

TEST_F(ProcessesTest, KillAtAnyMomentLeavesConsistentCache) {
  constexpr size_t kKillPoints = 50;
  member->piece = kMember / (kKillPoints - 2);
  for (size_t moment = 0; moment < kKillPoints; ++moment) {
    SCOPED_TRACE(moment);
    std::filesystem::remove_all(directory);
    member->before = [&](size_t given) {
      if (given >= moment * member->piece || given == kMember) ::raise(SIGKILL);
    };
    Child child([&] { return reads_all(store(), member); });
    EXPECT_EQ(child.wait(), 128 + SIGKILL);
    EXPECT_THAT(blobs(), IsEmpty());
    EXPECT_THAT(making_files(), SizeIs(2));  // the data and the map
    member->before = nullptr;
    // The next use of the store, for another blob, removes the files of the killed process.
    const TestProducerPtr other = test_producer(some_bytes(70'000, 2));
    EXPECT_EQ(read(*store()->blob(producer_of(other, "zip 2"))), describe(other->bytes));
    EXPECT_THAT(making_files(), IsEmpty());
    EXPECT_EQ(reads_all(store(), member), kPass);
    EXPECT_THAT(blobs(), SizeIs(2));
  }
}

// The blocks of the dead process match their checksums, but they are of other bytes.
TEST_F(ProcessesTest, FileOfDeadProcessIsNotContinued) {
  member->before = [&](size_t given) {
    if (given == 200'000) ::raise(SIGKILL);
  };
  Child child([&] {
    member->bytes = some_bytes(kMember, 2);
    return reads_all(store(), member);
  });
  EXPECT_EQ(child.wait(), 128 + SIGKILL);
  ASSERT_THAT(making_files(), SizeIs(2));
  member->before = nullptr;
  EXPECT_EQ(reads_all(store(), member), kPass);
  EXPECT_THAT(blobs(), SizeIs(1));
  EXPECT_THAT(making_files(), IsEmpty());
}

// Another process may read every present block, so the last one is not there before the verification.
TEST_F(ProcessesTest, LastBlockIsAbsentUntilAllBytesAreVerified) {
  BlobProducer wrong = producer_of(member, "zip 1");
  wrong.digest = sha256("others");
  std::vector<uint64_t> present;
  member->piece = 1000;
  member->before = [&](size_t given) {
    for (const std::string& path : data_files(directory)) {
      const auto files = store::open_files(Descriptor(::open("/", O_PATH | O_CLOEXEC)), path, O_RDWR);
      present.push_back(store::BlockFile::present_bytes(files));
      EXPECT_LT(present.back(), kMember) << given;
    }
  };
  EXPECT_THAT(read(*store()->blob(wrong)), testing::HasSubstr("expected " + sha256("others").hex()));
  EXPECT_GT(present.size(), 10U);
  EXPECT_THAT(blobs(), IsEmpty());
  EXPECT_THAT(making_files(), IsEmpty());
}

// Its size is not known, so the other process waits for all of it.
TEST_F(ProcessesTest, BlobOfUnknownSizeIsMaterializedOnce) {
  const auto shared = shared_memory();
  member->before = [&](size_t given) {
    if (given == 100'000) ++shared->starts;  // not by the search for small blobs
  };
  BlobProducer producer = producer_of(member, "tar.gz 1");
  producer.size = std::nullopt;
  const auto materializes = [&] {
    const auto made = store()->materialize(producer);
    return made && read(**made) == describe(bytes) ? kPass : kFail;
  };
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 4; ++i) children.push_back(std::make_unique<Child>(materializes));
  for (const auto& child : children) EXPECT_EQ(child->wait(), kPass);
  EXPECT_EQ(shared->starts, 1);
  EXPECT_THAT(blobs(), SizeIs(1));
  EXPECT_THAT(making_files(), IsEmpty());
}

TEST_F(ProcessesTest, DecodingInProgressIsNeitherListedNorRemoved) {
  const auto shared = shared_memory();
  member->before = [&](size_t given) {
    if (given != 200'000) return;
    ::sem_post(&shared->first);
    wait_for(shared->second);
  };
  Child maker([&] { return reads_all(store(), member); });
  wait_for(shared->first);
  const auto before = making_files();
  EXPECT_THAT(before, SizeIs(2));
  const CacheMaintenance maintenance(directory);
  EXPECT_THAT(maintenance.inventory().value().items, IsEmpty());
  EXPECT_EQ(maintenance.inventory().value().temporary_files, 1U);
  EXPECT_EQ(maintenance.collect(0).value().leftovers, 0U);
  EXPECT_THAT(maintenance.remove_all(PinnedBlobs::remove).value().not_removed, IsEmpty());
  EXPECT_TRUE(maintenance.verify({}).value().mismatched.empty());
  EXPECT_EQ(making_files(), before);
  ::sem_post(&shared->second);
  EXPECT_EQ(maker.wait(), kPass);
  EXPECT_THAT(blobs(), SizeIs(1));
}

}  // namespace
}  // namespace weightfs::test::processes_test
