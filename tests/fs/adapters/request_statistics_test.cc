#include "fs/adapters/request_statistics.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <thread>
#include <vector>

namespace weightfs::request_statistics_test {
namespace {

enum class Operation { open, read };
constexpr std::array<std::string_view, 2> kNames = {"open", "read"};
using std::chrono::microseconds;
using std::chrono::nanoseconds;

TEST(LatencyHistogram, PercentilesAreAccurateToAQuarter) {
  LatencyHistogram durations;
  for (int i = 1; i <= 1000; ++i) durations.add(microseconds(i));
  const auto snapshot = durations.snapshot();
  EXPECT_EQ(snapshot.count(), 1000U);
  for (const double share : {0.1, 0.5, 0.9, 0.99}) {
    const double exact = share * 1e6;
    const auto found = static_cast<double>(snapshot.percentile(share).count());
    EXPECT_GE(found, exact) << share;
    EXPECT_LE(found, exact * 1.25 + 1) << share;
  }
}

TEST(LatencyHistogram, PercentilesOfAnEmptyHistogramAreZero) {
  const LatencyHistogram durations;
  EXPECT_EQ(durations.snapshot().percentile(0.99).count(), 0);
  EXPECT_EQ(durations.snapshot().count(), 0U);
}

TEST(LatencyHistogram, ExtremeDurationsAreCounted) {
  LatencyHistogram durations;
  for (const int64_t each : {int64_t{-5}, int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, INT64_MAX})
    durations.add(nanoseconds(each));
  EXPECT_EQ(durations.snapshot().count(), 6U);
}

// These are the buckets of Prometheus.
TEST(LatencyHistogram, CountsBelowPowersOfTwoAreExact) {
  LatencyHistogram durations;
  for (const int64_t each : {1023, 1024, 1025, 2047, 2048}) durations.add(nanoseconds(each));
  const auto snapshot = durations.snapshot();
  EXPECT_EQ(snapshot.below_power(10), 1U);
  EXPECT_EQ(snapshot.below_power(11), 4U);
  EXPECT_EQ(snapshot.below_power(12), 5U);
}

TEST(Statistics, CountsEachRequestOnceFromManyThreads) {
  RequestStatistics statistics(kNames);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        RequestStatistics::Request request(statistics, Operation::read);
        if (i % 10 == 0) request.failed();
        statistics.add_bytes_read(3);
      }
    });
  for (std::thread& thread : threads) thread.join();
  const auto read = statistics.stats(1);
  EXPECT_EQ(read.took.count(), 4000U);
  EXPECT_EQ(read.errors, 400U);
  EXPECT_GE(read.total, read.longest);
  EXPECT_EQ(statistics.bytes(), 12000U);
  EXPECT_EQ(statistics.stats(0).took.count(), 0U);
}

TEST(Statistics, OpenFilesAndPendingRequestsAreUse) {
  RequestStatistics statistics(kNames);
  const auto before = RequestStatistics::Clock::now();
  while (RequestStatistics::Clock::now() == before) {
  }
  EXPECT_GT(statistics.idle_time().count(), 0);
  statistics.opened();
  EXPECT_EQ(statistics.idle_time().count(), 0);
  statistics.closed();
  {
    const RequestStatistics::Request request(statistics, Operation::open);
    EXPECT_EQ(statistics.idle_time().count(), 0);
  }
}

}  // namespace
}  // namespace weightfs::request_statistics_test
