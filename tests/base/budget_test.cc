#include "base/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/files/file_source.h"
#include "tests/support/temporary.h"

namespace weightfs::budget_test {
namespace {

using testing::HasSubstr;

TEST(Budget, LimitsGrowWithContainerSize) {
  const Budget empty(0), large(1'000'000'000);
  EXPECT_EQ(empty.memory_limit(), 64'000'000u);
  EXPECT_EQ(empty.time_limit(), 1'000'000'000u);
  EXPECT_EQ(large.memory_limit(), 10'064'000'000u);
  EXPECT_EQ(large.time_limit(), 101'000'000'000u);  // 1 s, and 1 s for each 10 MB
}

TEST(Budget, LimitsSaturateInsteadOfWrapping) {
  Budget budget(UINT64_MAX);
  EXPECT_EQ(budget.memory_limit(), UINT64_MAX);
  EXPECT_EQ(budget.time_limit(), UINT64_MAX);
  EXPECT_TRUE(budget.charge(Cost::lookup, UINT64_MAX / 20'000));
}

TEST(Budget, ChargeBeyondMemoryLimitFailsAndChargesNothing) {
  Budget budget(0);
  ASSERT_TRUE(budget.charge(Cost::kept, 60'000'000));
  const auto refused = budget.charge(Cost::kept, 5'000'000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
  EXPECT_EQ(refused.error().message,
            "too many bytes of names and texts: the memory limit of 61.0 MiB for a container of 0 B is exceeded");
  EXPECT_EQ(budget.memory_used(), 60'000'000u);
  EXPECT_EQ(budget.time_used(), 60'000'000u);
  EXPECT_TRUE(budget.charge(Cost::kept, 4'000'000));
}

TEST(Budget, ChargeBeyondTimeLimitFailsAndChargesNothing) {
  Budget budget(0);
  const auto refused = budget.charge(Cost::lookup, 33'334);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("too many lookups: the time limit of 1000 ms"));
  EXPECT_EQ(budget.time_used(), 0u);
  EXPECT_TRUE(budget.charge(Cost::lookup, 33'333));
}

TEST(Budget, OverflowingCountIsRefused) {
  Budget budget(1000);
  EXPECT_FALSE(budget.charge(Cost::value, UINT64_MAX));
  EXPECT_EQ(budget.memory_used(), 0u);
}

TEST(Budget, ReleaseReturnsMemoryButNotTime) {
  Budget budget(0);
  ASSERT_TRUE(budget.charge(Cost::rendered, 60'000'000));
  budget.release(Cost::rendered, 60'000'000);
  EXPECT_EQ(budget.memory_used(), 0u);
  EXPECT_EQ(budget.time_used(), 240'000'000u);
  EXPECT_TRUE(budget.charge(Cost::rendered, 60'000'000));
}

TEST(Budget, FileNamedRepeatedlyExtendsItOnce) {
  const TemporaryDirectory directory;
  const auto file = open_file(directory.write("shard", std::string(8192, 'x')));
  const auto again = open_file(directory.path("shard"));
  ASSERT_TRUE(file && again);
  Budget budget(0);
  const uint64_t before = budget.memory_limit();
  budget.add_file(**file);
  EXPECT_EQ(budget.memory_limit(), before + 81'920);
  budget.add_file(**again);
  EXPECT_EQ(budget.memory_limit(), before + 81'920);
}

TEST(Budget, HolesOfSparseFileDoNotExtendIt) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("sparse", "beginning");
  std::filesystem::resize_file(path, uint64_t{1} << 40);
  const auto file = open_file(path);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->size(), uint64_t{1} << 40);
  EXPECT_LE((*file)->occupied(), 65'536u);
  EXPECT_LE(budget_of(*file)->memory_limit(), 65'000'000u);
}

TEST(Budget, SourceWithoutIdentityDoesNotExtendIt) {
  Budget budget(0);
  budget.add_file(*in_memory("bytes"));
  EXPECT_EQ(budget.memory_limit(), Budget::kBaseMemory);
}

TEST(Budget, ConcurrentChargesAddUp) {
  Budget budget(0);
  std::atomic<uint64_t> charged = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 100'000; ++j) charged += budget.charge(Cost::tensor) ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(charged, 250'000u);  // 64 MB of 256 bytes
  EXPECT_EQ(budget.memory_used(), 64'000'000u);
}

TEST(Charges, AreReleasedUnlessKept) {
  Budget budget(0);
  {
    Charges failed(budget);
    ASSERT_TRUE(failed.charge(Cost::tensor, 10));
    EXPECT_EQ(budget.memory_used(), 2560u);
  }
  EXPECT_EQ(budget.memory_used(), 0u);
  {
    Charges done(budget);
    ASSERT_TRUE(done.charge(Cost::tensor, 10));
    Charges moved(std::move(done));
    moved.keep();
  }
  EXPECT_EQ(budget.memory_used(), 2560u);
}

TEST(Charges, ReachTheBudgetTogetherIfToldSo) {
  Budget budget(0);
  {
    Charges failed(budget, Charges::Pass::together);
    ASSERT_TRUE(failed.charge(Cost::tensor, 64));
    EXPECT_EQ(budget.memory_used(), 0u) << "16 KiB";
    ASSERT_TRUE(failed.charge(Cost::kept));
    EXPECT_EQ(budget.memory_used(), 16'385u);
    ASSERT_TRUE(failed.charge(Cost::step, 100));
    EXPECT_EQ(budget.time_used(), 64'001u) << "100 microseconds";
    ASSERT_TRUE(failed.charge(Cost::kept));
    EXPECT_EQ(budget.time_used(), 164'002u);
    ASSERT_TRUE(failed.charge(Cost::step));
  }
  EXPECT_EQ(budget.memory_used(), 0u);
  EXPECT_EQ(budget.time_used(), 165'002u) << "is not released";
  Charges done(budget, Charges::Pass::together);
  ASSERT_TRUE(done.charge(Cost::tensor));
  done.keep();
  EXPECT_EQ(budget.memory_used(), 256u);
}

TEST(Charges, BeyondTheLimitFailTogether) {
  Budget budget(0);
  Charges charges(budget, Charges::Pass::together);
  uint64_t charged = 0;
  while (charges.charge(Cost::tensor)) ++charged;
  EXPECT_LE(charged, 250'064u);  // 64 MB of 256 bytes, and 16 KiB
  EXPECT_GE(charged, 250'000u);
  EXPECT_LE(budget.memory_used(), Budget::kBaseMemory);
}

TEST(Loan, IsChargedUntilItEnds) {
  const auto budget = std::make_shared<Budget>(0);
  {
    const auto loan = Loan::take(budget, 60'000'000);
    ASSERT_TRUE(loan);
    EXPECT_EQ(budget->memory_used(), 60'000'000U);
    EXPECT_EQ(budget->time_used(), 0U);
  }
  EXPECT_EQ(budget->memory_used(), 0U);
}

TEST(Loan, LargerThanTheBudgetIsRefused) {
  const auto budget = std::make_shared<Budget>(0);
  ASSERT_TRUE(budget->charge(Cost::kept, 10'000'000));
  const auto loan = Loan::take(budget, 60'000'000);
  ASSERT_FALSE(loan);
  EXPECT_EQ(loan.error().code, Code::unsupported);
  EXPECT_EQ(budget->memory_used(), 10'000'000U);
}

TEST(Loan, WaitsForLoansOfOtherReaders) {
  const auto budget = std::make_shared<Budget>(0);
  auto first = std::make_unique<Result<Loan>>(Loan::take(budget, 60'000'000));
  ASSERT_TRUE(*first);
  std::atomic<int> asked = 0;
  std::thread other([&] {
    const CancelScope scope([&] { return ++asked, false; });
    const auto second = Loan::take(budget, 60'000'000);
    EXPECT_TRUE(second);
    EXPECT_EQ(budget->memory_used(), 60'000'000U);
  });
  while (asked == 0) std::this_thread::yield();
  first.reset();
  other.join();
  EXPECT_EQ(budget->memory_used(), 0U);
}

TEST(Loan, CancelledReaderDoesNotWait) {
  const auto budget = std::make_shared<Budget>(0);
  const auto first = Loan::take(budget, 60'000'000);
  ASSERT_TRUE(first);
  const CancelScope scope([] { return true; });
  const auto second = Loan::take(budget, 60'000'000);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::resource);
}

}  // namespace
}  // namespace weightfs::budget_test
