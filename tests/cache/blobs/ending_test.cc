// stop() wakes all waiting readers at once.
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <thread>

#include "base/os/descriptor.h"
#include "cache/blob_store.h"
#include "cache/store/file_range.h"
#include "tests/cache/child_process.h"
#include "tests/cache/store_fixture.h"

namespace weightfs::test::ending_test {
namespace {

using testing::IsEmpty;

constexpr char kEnding[] = "error: the mount is shutting down";

using ShutdownTest = StoreDirectory;

// Members that give 100,000 bytes, and the rest when the gate opens.
TestProducerPtr stuck(
    uint32_t seed, Gate& gate, std::function<void()> at_gate = [] {}) {
  const TestProducerPtr made = test_producer(some_bytes(kMember, seed));
  made->before = [&gate, at_gate = std::move(at_gate)](size_t given) {
    if (given < 100'000) return;
    at_gate();
    gate.wait();
  };
  return made;
}

TEST_F(ShutdownTest, CancelsReadersThatWaitForBytesOrSlots) {
  constexpr uint32_t kReaders = 9;
  Gate gate;
  Gate four;
  std::atomic<int> at_gate = 0;
  const BlobsPtr blobs = store();
  std::vector<std::thread> readers;
  for (uint32_t i = 0; i < kReaders; ++i) {
    const auto blob = blobs->blob(producer_of(stuck(i, gate,
                                                    [&] {
                                                      if (++at_gate == 4) four.open();
                                                    }),
                                              fmt::format("zip {}", i)));
    readers.emplace_back([blob] { EXPECT_EQ(read(*blob), kEnding); });
  }
  four.wait();
  std::thread ender([&] { blobs->stop(); });
  for (auto& reader : readers) reader.join();  // before the streams continue
  EXPECT_EQ(at_gate, 4);
  gate.open();
  ender.join();
  EXPECT_EQ(at_gate, 4);
  EXPECT_THAT(making_files(), IsEmpty());
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(ShutdownTest, CancelsReaderThatFollowsAnotherProcess) {
  const auto shared = shared_memory();
  member->before = [&](size_t given) {
    if (given != 200'000) return;
    ::sem_post(&shared->first);
    wait_for(shared->second);
  };
  Child maker([&] { return read(*store()->blob(producer_of(member, "zip 1"))) == describe(bytes) ? 0 : 1; });
  wait_for(shared->first);
  const BlobsPtr blobs = store();
  const auto blob = blobs->blob(producer_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, 0, 150'000), describe(bytes.substr(0, 150'000)));
  std::thread reader([&] { EXPECT_EQ(read(*blob), kEnding); });
  blobs->stop();
  reader.join();
  EXPECT_EQ(member->starts, 0);
  ::sem_post(&shared->second);
  EXPECT_EQ(maker.wait(), 0);
}

TEST_F(ShutdownTest, CancelsReaderThatWaitsForQuota) {
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  const Descriptor lock(::open((directory + "/v1/lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.number(), LOCK_EX), 0);
  const TestProducerPtr other = test_producer(some_bytes(kMember, 2));
  const BlobsPtr blobs = store();
  std::thread reader([&] { EXPECT_EQ(read(*blobs->blob(producer_of(other, "zip 2"))), kEnding); });
  while (making_files().empty()) std::this_thread::yield();
  blobs->stop();
  reader.join();
  EXPECT_EQ(other->starts, 0);
  EXPECT_THAT(making_files(), IsEmpty());
}

TEST_F(ShutdownTest, CachedBlobsAreStillReadable) {
  const BlobsPtr blobs = store();
  const auto blob = blobs->blob(producer_of(member, "zip 1"));
  EXPECT_EQ(read(*blob), describe(bytes));
  blobs->stop();
  EXPECT_EQ(read(*blob), describe(bytes));
  EXPECT_EQ(read(*blobs->blob(producer_of(test_producer(some_bytes(kMember, 2)), "zip 2"))), kEnding);
}

}  // namespace
}  // namespace weightfs::test::ending_test
