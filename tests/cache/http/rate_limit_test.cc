// Transfers that share a rate. The clock is the test's.
#include "cache/http/rate_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace weightfs::http::rate_limit_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = RateLimit::Clock;

constexpr uint64_t kRate = 1'000'000;

// The bytes that `transfers` receive together in a time, each as fast as it may, in pieces of these sizes.
uint64_t received(RateLimit& limit, const std::vector<uint64_t>& pieces, Clock::duration time) {
  const Clock::time_point begin{seconds(1'000)};
  std::vector<Clock::time_point> next(pieces.size(), begin);  // when each has its next piece
  uint64_t bytes = 0;
  for (;;) {
    const auto at = std::min_element(next.begin(), next.end());
    if (*at >= begin + time) return bytes;
    const uint64_t piece = pieces[static_cast<size_t>(at - next.begin())];
    *at += limit.reserve(piece, *at);
    if (*at <= begin + time) bytes += piece;
  }
}

TEST(RateLimit, OneTransferHasTheRate) {
  RateLimit limit(kRate);
  EXPECT_NEAR(static_cast<double>(received(limit, {16'384}, seconds(10))), 10.0 * kRate, 0.1 * 10 * kRate);
}

TEST(RateLimit, TransfersShareTheRate) {
  RateLimit limit(kRate);
  const auto bytes = received(limit, {16'384, 1, 65'536, 16'384, 4'000, 16'384, 16'384, 16'384}, seconds(10));
  EXPECT_NEAR(static_cast<double>(bytes), 10.0 * kRate, 0.1 * 10 * kRate);
}

TEST(RateLimit, IdleTimeIsSavedForAMomentOnly) {
  RateLimit limit(kRate);
  const Clock::time_point now{seconds(1'000)};
  EXPECT_EQ(limit.reserve(kRate / 10, now), Clock::duration::zero());
  EXPECT_EQ(limit.reserve(kRate / 10, now), milliseconds(100));
  EXPECT_EQ(limit.reserve(kRate / 10, now + seconds(600)), Clock::duration::zero());
  EXPECT_EQ(limit.reserve(kRate, now + seconds(600)), seconds(1));
}

TEST(RateLimit, CallersGetTheirTurnsInOrder) {
  RateLimit limit(kRate);
  const Clock::time_point now{seconds(1'000)};
  Clock::duration last = Clock::duration::zero();
  for (int i = 0; i < 20; ++i) {
    const auto wait = limit.reserve(kRate / 5, now);
    EXPECT_GT(wait, last);
    last = wait;
  }
  EXPECT_EQ(last, milliseconds(20 * 200 - 100));
}

}  // namespace
}  // namespace weightfs::http::rate_limit_test
