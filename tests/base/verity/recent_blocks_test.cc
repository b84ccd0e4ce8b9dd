#include "base/verity/recent_blocks.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

namespace weightfs::recent_blocks_test {
namespace {

// Reads the first byte of a block of `size` bytes, each of which is `value`; counts the computations.
struct Reader {
  Result<std::byte> read(uint64_t block, uint64_t size = 10, std::byte value = std::byte{1}) {
    std::byte first{};
    const auto fill = [&](std::span<std::byte> bytes) -> Result<void> {
      EXPECT_EQ(bytes.size(), size);
      std::fill(bytes.begin(), bytes.end(), value);
      return ++computed, Result<void>();
    };
    TRY_VOID(blocks.read(block, size, fill, 0, {&first, 1}));
    return first;
  }

  RecentBlocks blocks;
  std::atomic<int> computed = 0;
};

TEST(RecentBlocks, BlockIsComputedOnce) {
  Reader reader;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(reader.read(7).value(), std::byte{1});
  EXPECT_EQ(reader.computed, 1);
  ASSERT_TRUE(reader.read(8).has_value());
  EXPECT_EQ(reader.computed, 2) << "another block";
}

TEST(RecentBlocks, BytesAreThoseFromTheOffset) {
  const RecentBlocks blocks;
  const auto fill = [](std::span<std::byte> bytes) -> Result<void> {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    return {};
  };
  for (int i = 0; i < 2; ++i) {
    std::array<std::byte, 2> read{};
    ASSERT_TRUE(blocks.read(0, 5, fill, 3, read).has_value());
    EXPECT_EQ(read, (std::array{std::byte{3}, std::byte{4}}));
  }
}

TEST(RecentBlocks, BlockThatManyThreadsNeedIsComputedOnce) {
  Reader reader;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (uint64_t block = 0; block < 50; ++block) EXPECT_TRUE(reader.read(block).has_value());
    });
  threads.clear();
  EXPECT_EQ(reader.computed, 50);
}

TEST(RecentBlocks, ErrorIsNotKept) {
  Reader reader;
  const auto fail = [](std::span<std::byte>) -> Result<void> { return failure(Code::io, "cut off"); };
  std::byte first{};
  EXPECT_FALSE(reader.blocks.read(1, 10, fail, 0, {&first, 1}).has_value());
  EXPECT_EQ(reader.read(1).value(), std::byte{1});
}

TEST(RecentBlocks, LeastRecentlyUsedIsEvicted) {
  Reader reader;
  for (const uint64_t block : {0U, 1U, 0U, 2U}) ASSERT_TRUE(reader.read(block, kMaxRecentBlocks / 2).has_value());
  EXPECT_EQ(recent_blocks_size(), kMaxRecentBlocks) << "two blocks of half of the limit are kept";
  reader.computed = 0;
  ASSERT_TRUE(reader.read(0, kMaxRecentBlocks / 2).has_value());
  EXPECT_EQ(reader.computed, 0);
  ASSERT_TRUE(reader.read(1, kMaxRecentBlocks / 2).has_value());
  EXPECT_EQ(reader.computed, 1) << "evicted by the third";
}

TEST(RecentBlocks, NewBlockHasMemoryOfEvictedBlock) {
  const RecentBlocks blocks;
  std::vector<const std::byte*> places;
  for (uint64_t block = 0; block < 4; ++block) {
    const auto fill = [&](std::span<std::byte> bytes) { return places.push_back(bytes.data()), Result<void>(); };
    std::byte first{};
    ASSERT_TRUE(blocks.read(block, kMaxRecentBlocks / 2, fill, 0, {&first, 1}).has_value());
  }
  EXPECT_NE(places[0], places[1]);
  EXPECT_EQ(places[0], places[2]);
  EXPECT_EQ(places[1], places[3]);
}

TEST(RecentBlocks, ThreadsThatEvictEachOthersBlocksReadTheirOwn) {
  Reader reader;
  std::vector<std::jthread> threads;
  for (uint8_t i = 1; i <= 4; ++i)
    threads.emplace_back([&reader, i] {
      for (int round = 0; round < 5; ++round)
        EXPECT_EQ(reader.read(i, kMaxRecentBlocks / 2, std::byte{i}).value(), std::byte{i});
    });
}

TEST(RecentBlocks, BlocksOfDestroyedSourceAreFreed) {
  const uint64_t before = recent_blocks_size();
  {
    Reader reader;
    ASSERT_TRUE(reader.read(0, 1000).has_value());
    EXPECT_GT(recent_blocks_size(), before);
  }
  EXPECT_EQ(recent_blocks_size(), before);
}

}  // namespace
}  // namespace weightfs::recent_blocks_test
