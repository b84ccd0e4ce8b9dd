// Which bytes of a file with a digest were delivered, and their hash in the order of the file.
#include "cache/remote/delivery.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

#include "cache/blocks/block_map.h"
#include "tests/cache/test_producer.h"

namespace weightfs::test::delivery_test {
namespace {

using blobs::Delivery;
using store::kBlock;

// semantics 21.6
class DeliveryTest : public testing::Test {
 protected:
  void note(uint64_t from, uint64_t to, uint64_t generation = 1) {
    const auto read_back = [&](uint64_t at, std::span<std::byte> out) {
      const size_t got = std::min<size_t>(out.size(), cached_end - std::min(cached_end, at));
      std::memcpy(out.data(), all.data() + at, got);
      read_again += got;
      return got;
    };
    to = std::min<uint64_t>(to, all.size());
    delivery->note(generation, from, std::as_bytes(std::span(all)).subspan(from, to - from), read_back);
  }

  const std::string all = some_bytes(20 * kBlock + 100);
  uint64_t cached_end = all.size();
  uint64_t read_again = 0;  // bytes
  std::unique_ptr<Delivery> delivery = std::make_unique<Delivery>(all.size());
};

TEST_F(DeliveryTest, BytesInOrderAreHashedWithoutReadingThemAgain) {
  for (const uint64_t step : {kBlock, 4 * kBlock, uint64_t{10'000}, uint64_t{100'000}}) {
    delivery = std::make_unique<Delivery>(all.size());
    for (uint64_t at = 0; at < all.size(); at += step) {
      EXPECT_FALSE(delivery->is_hashed());
      EXPECT_EQ(delivery->digest(), std::nullopt);
      note(at, at + step);
    }
    EXPECT_TRUE(delivery->is_whole());
    EXPECT_EQ(delivery->digest_of(1), sha256(all));
    EXPECT_EQ(delivery->digest(), sha256(all)) << "again";
    EXPECT_EQ(delivery->digest_of(2), std::nullopt);
  }
  EXPECT_EQ(read_again, 0u);
}

// The requests of one reader are served by several threads.
TEST_F(DeliveryTest, ParallelReadsOutOfOrderAreReadBack) {
  for (uint64_t block = 0; block < 20; block += 2) {
    note((block + 1) * kBlock, (block + 2) * kBlock);
    note(block * kBlock, (block + 1) * kBlock);
  }
  note(20 * kBlock, all.size());
  EXPECT_EQ(delivery->digest_of(1), sha256(all));
  EXPECT_EQ(read_again, 10 * kBlock);
}

TEST_F(DeliveryTest, LastReadMayComeBeforeTheOneBeforeIt) {
  note(0, 10 * kBlock);
  note(15 * kBlock, all.size());
  EXPECT_FALSE(delivery->is_whole());
  note(10 * kBlock, 15 * kBlock);
  EXPECT_EQ(delivery->digest_of(1), sha256(all));
  EXPECT_EQ(read_again, 5 * kBlock + 100);
}

TEST_F(DeliveryTest, EvictedBytesAreNotReadBack) {
  note(5 * kBlock, all.size());
  cached_end = 8 * kBlock;
  note(0, 5 * kBlock);
  EXPECT_TRUE(delivery->is_whole());
  EXPECT_FALSE(delivery->is_hashed());
  EXPECT_EQ(read_again, 3 * kBlock);
}

TEST_F(DeliveryTest, FileIsWholeOnceEachBlockWasNoted) {
  for (const uint64_t block : {uint64_t{3}, uint64_t{20}, uint64_t{0}, uint64_t{7}})
    note(block * kBlock, (block + 1) * kBlock);
  note(8 * kBlock, 20 * kBlock);
  note(0, 3 * kBlock);
  note(0, 3 * kBlock);
  EXPECT_FALSE(delivery->is_whole());
  note(4 * kBlock + 1, 7 * kBlock - 1);
  EXPECT_TRUE(delivery->is_whole());
}

// One of the readers finds that it notes the last block.
TEST_F(DeliveryTest, ThreadsAreNotAllEarlierThanTheLast) {
  for (int round = 0; round < 100; ++round) {
    Delivery shared(all.size());
    std::atomic<int> last = 0;
    {
      std::vector<std::jthread> readers;
      for (uint64_t part = 0; part < 3; ++part)
        readers.emplace_back([&, part] {
          for (uint64_t block = part * 7; block < part * 7 + 7; ++block) {
            const uint64_t from = block * kBlock;
            const auto bytes = std::as_bytes(std::span(all)).subspan(from, std::min(kBlock, all.size() - from));
            shared.note(1, from, bytes, [](uint64_t, std::span<std::byte>) { return 0; });
            last += shared.is_whole();
          }
        });
    }
    EXPECT_GE(last, 1);
  }
}

// Readers keep what they got.
TEST_F(DeliveryTest, NotedBlocksAreKeptWhenTheHashBeginsAgain) {
  note(0, 20 * kBlock);
  delivery->restart_hash();
  cached_end = 0;
  EXPECT_FALSE(delivery->is_whole());
  note(20 * kBlock, all.size(), 2);
  EXPECT_TRUE(delivery->is_whole());
  EXPECT_FALSE(delivery->is_hashed());
  note(0, all.size(), 2);
  EXPECT_EQ(delivery->digest_of(2), sha256(all));
}

TEST_F(DeliveryTest, FileIsWholeAfterItWasServedVerified) {
  delivery->note_all();
  EXPECT_TRUE(delivery->is_whole());
  EXPECT_FALSE(delivery->is_hashed());
  delivery->forget_noted();
  EXPECT_FALSE(delivery->is_whole());
  note(0, all.size() - kBlock);
  EXPECT_FALSE(delivery->is_whole());
  note(all.size() - kBlock, all.size());
  EXPECT_TRUE(delivery->is_whole());
  EXPECT_EQ(delivery->digest(), sha256(all));
}

// As a manifest may state. A page of memory holds 32,768 blocks: none is used for those that were not noted. It is
// measured before they are forgotten, which reads all of them: some kernels allocate pages for that.
TEST_F(DeliveryTest, BlocksOfAHugeFileUseNoMemory) {
  const uint64_t size = uint64_t{16} << 40;
  const auto nothing = [](uint64_t, std::span<std::byte>) { return 0; };
  const auto bytes = std::as_bytes(std::span(all)).first(kBlock);
  const auto resident = [] {
    uint64_t total = 0, pages = 0;
    std::ifstream("/proc/self/statm") >> total >> pages;
    return pages;
  };
  const uint64_t before = resident();
  Delivery huge(size);
  huge.note(1, 0, bytes, nothing);
  huge.note(1, size - kBlock, bytes, nothing);
  EXPECT_LT(resident(), before + 10'000);
  huge.forget_noted();
  EXPECT_FALSE(huge.is_whole());
}

TEST_F(DeliveryTest, BytesOfSeveralGenerationsHaveADigestOfNone) {
  note(0, 10 * kBlock, 1);
  note(10 * kBlock, all.size(), 2);
  EXPECT_EQ(delivery->digest(), sha256(all));
  EXPECT_EQ(delivery->digest_of(1), std::nullopt);
  EXPECT_EQ(delivery->digest_of(2), std::nullopt);
}

TEST_F(DeliveryTest, ReaderThatBeginsInAnotherGenerationIsHashedFromItsFirstByte) {
  note(0, 10 * kBlock, 1);
  note(0, 5 * kBlock, 2);
  note(5 * kBlock, all.size(), 2);
  EXPECT_EQ(delivery->digest_of(2), sha256(all));
}

TEST_F(DeliveryTest, HashOfHalfTheFileCanBeContinued) {
  note(0, 5 * kBlock);
  EXPECT_FALSE(delivery->take(1)) << "too few";
  note(5 * kBlock, 12 * kBlock);
  EXPECT_FALSE(delivery->take(2));
  auto begun = delivery->take(1);
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->size, 12 * kBlock);
  begun->hash.update(std::as_bytes(std::span(all)).subspan(begun->size));
  EXPECT_EQ(begun->hash.finish(), sha256(all));
  EXPECT_FALSE(delivery->take(1)) << "another hash has begun";
}

}  // namespace
}  // namespace weightfs::test::delivery_test
