#include "fs/reading/access_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace weightfs::access_pattern_test {
namespace {

using testing::IsEmpty;
using weightfs::AccessPattern;

constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kSize = 1 << 30;

// The ranges that are requested ahead of reads of `length` bytes at these offsets; checks that none is requested twice.
std::vector<ByteRange> requested(AccessPattern& pattern, const std::vector<uint64_t>& offsets, uint64_t length) {
  std::vector<ByteRange> all;
  for (const uint64_t from : offsets) {
    for (const ByteRange& next : pattern.next_after({from, from + length}, kSize)) {
      EXPECT_LT(next.from, next.to);
      EXPECT_LE(next.to, kSize);
      for (const ByteRange& other : all) EXPECT_TRUE(next.to <= other.from || other.to <= next.from);
      all.push_back(next);
    }
  }
  return all;
}

std::vector<uint64_t> multiples(uint64_t of, uint64_t count) {
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < count; ++i) offsets.push_back(i * of);
  return offsets;
}

TEST(AccessPattern, ReadsInOrderRequestNothing) {
  AccessPattern pattern;
  EXPECT_THAT(requested(pattern, multiples(128 * kKiB, 100), 128 * kKiB), IsEmpty());
}

TEST(AccessPattern, NothingIsRequestedBeyondTheEnd) {
  AccessPattern pattern;
  const auto ranges = requested(pattern, multiples(kMiB, kSize / kMiB), kMiB / 2);
  EXPECT_EQ(ranges.size(), kSize / kMiB - 4);
  EXPECT_EQ(ranges.back().from, kSize - kMiB);
  EXPECT_THAT(pattern.next_after({kSize, kSize + kMiB}, kSize), IsEmpty());
  EXPECT_THAT(pattern.next_after({0, 0}, 0), IsEmpty());
}

TEST(AccessPattern, RandomReadsRequestNothing) {
  AccessPattern pattern;
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): the same order in each run
  std::vector<uint64_t> offsets;
  for (int i = 0; i < 2000; ++i) offsets.push_back(random() % (kSize / (64 * kKiB)) * 64 * kKiB);
  EXPECT_THAT(requested(pattern, offsets, 64 * kKiB), IsEmpty());
}

TEST(AccessPattern, OnlyTheReadsAtEqualDistancesAreRequested) {
  AccessPattern pattern;
  const auto ranges = requested(pattern, multiples(kMiB, 100), 64 * kKiB);
  ASSERT_EQ(ranges.size(), 96 + AccessPattern::kAhead);
  for (size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_EQ(ranges[i].from, (i + 4) * kMiB);
    EXPECT_EQ(ranges[i].to, ranges[i].from + 64 * kKiB);
  }
}

TEST(AccessPattern, NewDistanceReplacesTheOldOne) {
  AccessPattern pattern;
  EXPECT_THAT(requested(pattern, multiples(2 * kMiB, 10), 4 * kKiB), testing::Not(IsEmpty()));
  const auto ranges = requested(pattern, multiples(kMiB, 5), 4 * kKiB);
  ASSERT_EQ(ranges.size(), AccessPattern::kAhead + 1);
  EXPECT_EQ(ranges.front().from, 4 * kMiB);
}

TEST(AccessPattern, DistancesThatExceedTheFileRequestNothing) {
  AccessPattern pattern;
  constexpr uint64_t kHuge = UINT64_MAX / 2 - 1;
  for (const uint64_t from : {uint64_t{0}, kHuge / 2, kHuge / 2 * 2}) pattern.next_after({from, from + 10}, kHuge);
  EXPECT_THAT(pattern.next_after({kHuge - 1, kHuge + 9}, kHuge), IsEmpty());
}

}  // namespace
}  // namespace weightfs::access_pattern_test
