#include "base/recent_blocks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace weightfs {
namespace {

std::vector<std::byte> block_of(size_t size) { return std::vector<std::byte>(size, std::byte{1}); }

TEST(RecentBlocks, BlockIsComputedOnce) {
  const RecentBlocks blocks;
  int computed = 0;
  const auto make = [&]() -> Result<std::vector<std::byte>> { return ++computed, block_of(10); };
  for (int i = 0; i < 3; ++i) ASSERT_EQ(blocks.get(7, make).value()->size(), 10U);
  EXPECT_EQ(computed, 1);
  ASSERT_TRUE(blocks.get(8, make).has_value());
  EXPECT_EQ(computed, 2) << "another block";
}

TEST(RecentBlocks, BlockThatManyThreadsNeedIsComputedOnce) {
  const RecentBlocks blocks;
  std::atomic<int> computed = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (uint64_t block = 0; block < 50; ++block)
        EXPECT_TRUE(blocks.get(block, [&]() -> Result<std::vector<std::byte>> { return ++computed, block_of(8); }));
    });
  threads.clear();
  EXPECT_EQ(computed, 50);
}

TEST(RecentBlocks, ErrorIsNotKept) {
  const RecentBlocks blocks;
  EXPECT_FALSE(blocks.get(1, []() -> Result<std::vector<std::byte>> { return failure(Code::io, "cut off"); }));
  EXPECT_TRUE(blocks.get(1, []() -> Result<std::vector<std::byte>> { return block_of(1); }));
}

TEST(RecentBlocks, LeastRecentlyUsedIsEvicted) {
  const RecentBlocks blocks;
  int computed = 0;
  const auto make = [&]() -> Result<std::vector<std::byte>> { return ++computed, block_of(kMaxRecentBlocks / 3); };
  for (const uint64_t block : {0U, 1U, 0U, 2U}) ASSERT_TRUE(blocks.get(block, make).has_value());
  EXPECT_LE(recent_blocks_size(), kMaxRecentBlocks);
  computed = 0;
  ASSERT_TRUE(blocks.get(0, make).has_value());
  EXPECT_EQ(computed, 0);
  ASSERT_TRUE(blocks.get(1, make).has_value());
  EXPECT_EQ(computed, 1) << "evicted by the third";
}

TEST(RecentBlocks, BlocksOfDestroyedSourceAreFreed) {
  const uint64_t before = recent_blocks_size();
  {
    const RecentBlocks blocks;
    ASSERT_TRUE(blocks.get(0, []() -> Result<std::vector<std::byte>> { return block_of(1000); }));
    EXPECT_GT(recent_blocks_size(), before);
  }
  EXPECT_EQ(recent_blocks_size(), before);
}

}  // namespace
}  // namespace weightfs
