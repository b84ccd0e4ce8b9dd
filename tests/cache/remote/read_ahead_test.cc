// How many bytes are requested ahead of reads that follow each other.
#include "cache/remote/read_ahead.h"

#include <gtest/gtest.h>

namespace weightfs::blobs {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

TEST(ReadAhead, RandomReadsRequestNothingAhead) {
  ReadAhead reads;
  const ByteRange tensor{kMiB, 100 * kMiB};
  EXPECT_EQ(reads.end_for(50 * kMiB, 50 * kMiB + 4096, tensor), 50 * kMiB + 4096);
  EXPECT_EQ(reads.end_for(20 * kMiB, 20 * kMiB + 4096, tensor), 20 * kMiB + 4096);
}

TEST(ReadAhead, SequentialReaderGetsAGrowingWindowWithinTheTensor) {
  ReadAhead reads;
  const ByteRange tensor{kMiB, 100 * kMiB};
  EXPECT_EQ(reads.end_for(kMiB, 2 * kMiB, tensor), 3 * kMiB) << "perhaps no other bytes are read";
  EXPECT_EQ(reads.end_for(2 * kMiB, 3 * kMiB, tensor), 11 * kMiB);
  EXPECT_EQ(reads.end_for(3 * kMiB, 4 * kMiB, tensor), 20 * kMiB);
  EXPECT_EQ(reads.end_for(4 * kMiB, 5 * kMiB, tensor), 37 * kMiB);
  EXPECT_EQ(reads.end_for(5 * kMiB, 6 * kMiB, tensor), 70 * kMiB);
  EXPECT_EQ(reads.end_for(6 * kMiB, 7 * kMiB, tensor), 7 * kMiB) << "more than half of the window was requested";
  EXPECT_EQ(reads.end_for(40 * kMiB, 41 * kMiB, tensor), 41 * kMiB) << "out of order";
}

TEST(ReadAhead, ParserGetsATenthAhead) {
  ReadAhead reads;
  EXPECT_EQ(reads.end_for(0, 64 * kKiB, std::nullopt), 64 * kKiB);
  uint64_t end = 0;
  for (uint64_t at = 64 * kKiB; at < 10 * kMiB; at += 64 * kKiB) end = reads.end_for(at, at + 64 * kKiB, std::nullopt);
  EXPECT_GE(end, 10 * kMiB + kMiB - 32 * kKiB);
  EXPECT_LE(end, 10 * kMiB + kMiB);
}

}  // namespace
}  // namespace weightfs::blobs
