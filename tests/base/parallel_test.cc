#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <vector>

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
