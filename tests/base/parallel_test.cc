#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "base/cancel.h"

namespace weightfs::parallel_test {
namespace {

TEST(Parallel, EachPartIsDoneOnce) {
  for (const size_t threads : {1U, 2U, 8U}) {
    std::vector<std::atomic<int>> done(100);
    ASSERT_TRUE(in_parallel(done.size(), threads, [&](uint64_t part) { return ++done[part], Result<void>(); }));
    for (const auto& count : done) EXPECT_EQ(count, 1);
  }
  EXPECT_TRUE(in_parallel(0, 8, [](uint64_t) -> Result<void> { return failure(Code::io, "not called"); }));
}

TEST(Parallel, PartsAreDoneAtTheSameTime) {
  constexpr int kThreads = 4;
  std::latch all_begun(kThreads);
  std::set<std::thread::id> threads;
  std::mutex mutex;
  ASSERT_TRUE(in_parallel(kThreads, kThreads, [&](uint64_t) -> Result<void> {
    all_begun.arrive_and_wait();
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return {};
  }));
  EXPECT_EQ(threads.size(), size_t{kThreads});
  EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
}

TEST(Parallel, ErrorEndsTheWork) {
  std::atomic<int> done = 0;
  const auto result = in_parallel(1'000'000, 2, [&](uint64_t part) -> Result<void> {
    if (part == 10) return failure(Code::io, "cut off");
    return ++done, Result<void>();
  });
  EXPECT_EQ(result.error().message, "cut off");
  EXPECT_LT(done, 1'000'000);
}

// The caller has no part left, and waits for a thread that only its cancellation can end.
TEST(Parallel, CancellationOfTheCallerReachesTheOthers) {
  const auto caller = std::this_thread::get_id();
  std::latch both(2);
  std::atomic<bool> is_left = false;
  const CancelScope scope([&] { return is_left.load(); });
  const auto result = in_parallel(2, 2, [&](uint64_t) -> Result<void> {
    both.arrive_and_wait();
    if (std::this_thread::get_id() == caller) {
      is_left = true;
      return {};
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is_cancelled() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return is_cancelled() ? failure(Code::resource, "cancelled") : failure(Code::io, "not cancelled in 60 s");
  });
  EXPECT_EQ(result.error().message, "cancelled");
}

TEST(Parallel, LackOfMemoryIsAnError) {
  const auto result = in_parallel(4, 2, [](uint64_t) -> Result<void> { throw std::bad_alloc(); });
  EXPECT_EQ(result.error().code, Code::resource);
}

TEST(Parallel, NumberOfProcessorsIsLimited) {
  EXPECT_EQ(processors(1), 1U);
  EXPECT_GE(processors(64), 1U);
  EXPECT_LE(processors(64), 64U);
}

}  // namespace
}  // namespace weightfs::parallel_test
