#include "cli/console/progress.h"

#include <gtest/gtest.h>

namespace weightfs::test::progress_test {
namespace {

using std::chrono::seconds;

TEST(RecentRate, BytesThatWerePresentBeforeAreNotCounted) {
  RecentRate rate;
  const RecentRate::Clock::time_point begin{};
  EXPECT_EQ(rate.add(1'000'000, begin), 0);
  EXPECT_EQ(rate.add(1'000'300, begin + seconds(3)), 100);
}

TEST(RecentRate, OnlyTheLastSecondsCount) {
  RecentRate rate;
  const RecentRate::Clock::time_point begin{};
  uint64_t done = 0;
  for (int second = 0; second < 60; ++second) rate.add(done += 1000, begin + seconds(second));
  EXPECT_EQ(rate.add(done, begin + seconds(62)), 400);  // nothing in the last 3 of 5 seconds
  EXPECT_EQ(rate.add(done, begin + seconds(64)), 0);
  EXPECT_EQ(rate.add(done += 7, begin + seconds(71)), 1);
}

TEST(RecentRate, DroppedBytesAreNoNegativeRate) {
  RecentRate rate;
  const RecentRate::Clock::time_point begin{};
  rate.add(1000, begin);
  EXPECT_EQ(rate.add(0, begin + seconds(1)), 0);
}

}  // namespace
}  // namespace weightfs::test::progress_test
