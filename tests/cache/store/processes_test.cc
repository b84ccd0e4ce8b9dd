// One cache, used by several processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/blob_store.h"
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
    EXPECT_THAT(making_files(), SizeIs(1));
    member->before = nullptr;
    // The next use of the store, for another blob, removes the files of the killed process.
    const TestProducerPtr other = test_producer(some_bytes(70'000, 2));
    EXPECT_EQ(read(*store()->blob(producer_of(other, "zip 2"))), describe(other->bytes));
    EXPECT_THAT(making_files(), IsEmpty());
    EXPECT_EQ(reads_all(store(), member), kPass);
    EXPECT_THAT(blobs(), SizeIs(2));
  }
}

// The file of the dead process has the right length but wrong bytes.
TEST_F(ProcessesTest, FileOfDeadProcessIsNotContinued) {
  member->before = [&](size_t given) {
    if (given == 200'000) ::raise(SIGKILL);
  };
  Child child([&] { return reads_all(store(), member); });
  EXPECT_EQ(child.wait(), 128 + SIGKILL);
  ASSERT_THAT(making_files(), SizeIs(1));
  const std::string left = directory + "/v1/making/" + making_files()[0];
  std::filesystem::resize_file(left, 0);
  std::filesystem::resize_file(left, 299'000);
  member->before = nullptr;
  EXPECT_EQ(reads_all(store(), member), kPass);
}

}  // namespace
}  // namespace weightfs::test::processes_test
