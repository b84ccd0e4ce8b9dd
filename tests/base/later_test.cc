#include "base/later.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/cancel.h"

namespace weightfs::later_test {
namespace {

TEST(Later, IsComputedOnceForConcurrentCallers) {
  std::atomic<int> made = 0;
  const Later<int> later([&]() -> Result<int> { return ++made; });
  EXPECT_EQ(later.peek(), std::nullopt);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([later] { EXPECT_EQ(later.get().value(), 1); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(later.peek(), 1);
}

TEST(Later, RetriesAfterFailure) {
  int tries = 0;
  const Later<int> later([&]() -> Result<int> {
    if (++tries == 1) return failure(Code::resource, "not now");
    return 7;
  });
  EXPECT_EQ(later.get().error().message, "not now");
  EXPECT_EQ(later.get().value(), 7);
  EXPECT_EQ(later.get().value(), 7);
  EXPECT_EQ(tries, 2);
}

TEST(Later, FailureIsReturnedToAllWaitingThreads) {
  std::latch started(2);
  std::atomic<int> tries = 0;
  const Later<int> later([&]() -> Result<int> {
    ++tries;
    started.wait();
    return failure(Code::io, "broken");
  });
  std::thread first([&] { EXPECT_FALSE(later.get()); });
  while (tries == 0) std::this_thread::yield();
  std::thread second([&] {
    started.count_down();
    EXPECT_EQ(later.get().error().message, "broken");
  });
  started.count_down();
  first.join();
  second.join();
  EXPECT_LE(tries, 2);  // the second either waited for the first try or came after it
}

TEST(Later, ExceptionBecomesFailureAndIsRetried) {
  int tries = 0;
  const Later<int> later([&]() -> Result<int> {
    if (++tries == 1) throw std::bad_alloc();
    if (tries == 2) throw std::length_error("too long");
    return 3;
  });
  EXPECT_EQ(later.get().error().message, "out of memory");
  EXPECT_EQ(later.get().error().message, "too long");
  EXPECT_EQ(later.get().value(), 3);
}

TEST(Later, ResultOfCancelledThreadIsComputedAgainByWaitingThread) {
  std::latch making(1);
  std::latch go_on(1);
  std::atomic<int> tries = 0;
  const Later<int> later([&]() -> Result<int> {
    if (++tries > 1) return 2;
    making.count_down();
    go_on.wait();
    return 1;  // perhaps of the half that it could read
  });
  std::thread cancelled([&] {
    const CancelScope scope([] { return true; });
    EXPECT_EQ(later.get().error().message, "cancelled");
  });
  making.wait();
  std::thread waiting([&] { EXPECT_EQ(later.get().value(), 2); });
  go_on.count_down();
  cancelled.join();
  waiting.join();
  EXPECT_EQ(later.peek(), 2);
}

TEST(Later, DestroysMakeAfterSuccess) {
  auto held = std::make_shared<int>(1);
  const Later<int> later([held]() -> Result<int> { return *held; });
  EXPECT_EQ(held.use_count(), 2);
  EXPECT_EQ(later.get().value(), 1);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Later, ForgetDropsValueWithKeptMake) {
  int made = 0;
  const Later<int> later([&]() -> Result<int> { return ++made; });
  later.keep_make();
  later.forget();
  EXPECT_EQ(later.get().value(), 1);
  later.forget();
  EXPECT_EQ(later.peek(), std::nullopt);
  EXPECT_EQ(later.get().value(), 2);
  EXPECT_EQ(later.get().value(), 2);
}

TEST(Later, ForgetKeepsValueWithoutMake) {
  const Later<int> made([]() -> Result<int> { return 1; });
  EXPECT_EQ(made.get().value(), 1);
  made.forget();
  EXPECT_EQ(made.peek(), 1);
  const auto given = Later<int>::of(3);
  given.keep_make();
  given.forget();
  EXPECT_EQ(given.get().value(), 3);
}

// A value that is forgotten right after it was computed is still returned to all waiting threads.
TEST(Later, WaitingThreadsReceiveForgottenValue) {
  std::atomic<int> made = 0;
  const Later<int> later([&]() -> Result<int> { return ++made; });
  later.keep_make();
  std::atomic<bool> over = false;
  std::thread forgetting([&] {
    while (!over) later.forget();
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) EXPECT_GE(later.get().value(), 1);
    });
  for (auto& thread : threads) thread.join();
  over = true;
  forgetting.join();
}

TEST(Later, OfHoldsValueImmediately) { EXPECT_EQ(Later<int>::of(3).peek(), 3); }

}  // namespace
}  // namespace weightfs::later_test
