// What a strided tensor requests from a server, ahead of its readers and when it is prefetched.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files/leaf.h"
#include "base/verity/recent_blocks.h"
#include "formats/common/strided.h"
#include "tests/support/requested_source.h"

namespace weightfs::strided_requests_test {
namespace {

using Requested = test::RequestedSource;

Slice strided_as(std::string_view dtype, const Slice& storage, uint64_t offset, const Shape& shape,
                 const Strides& strides) {
  return strided(storage, offset, *dtype_named(dtype), shape, strides).value();
}

std::string some_bytes(uint64_t size) { return std::string(size, 'x'); }

// Four heads of 64 rows of 4 KiB, the halves of which alternate: a head is 256 KiB of the storage and of the tensor.
constexpr uint64_t kRow = 2048;
constexpr uint64_t kHead = 64 * kRow * 2;

Slice heads_of(const SourcePtr& server) {
  const Slice storage = slice(server, 100, 4 * kHead).value();
  return strided_as("float16", storage, 0, {4, 32, 2, kRow}, {64 * kRow, kRow, 32 * kRow, 1});
}

TEST(StridedRequests, HeadsAreRequestedAheadAsTheyAreStored) {
  const auto server = std::make_shared<Requested>(some_bytes(100 + 5 * kHead));
  const Slice heads = heads_of(server);
  std::vector<std::byte> out(4096);
  ASSERT_EQ(heads.read_ahead(kHead + 8192, out, {kHead + 8192, 3 * kHead}).value(), 4096U);
  EXPECT_EQ(server->expected.from, 100 + kHead);
  EXPECT_EQ(server->expected.to, 100 + 3 * kHead);
  EXPECT_EQ(server->bytes_read, 4096U) << "a random read requests its rows only";
  ASSERT_EQ(heads.read_ahead(0, out, {0, heads.size()}).value(), 4096U);
  EXPECT_EQ(server->expected.to, 100 + 4 * kHead) << "not what is stored behind the tensor";
}

// Reads all bytes in order, a part at a time.
void read_in_order(const Source& source, uint64_t step) {
  std::vector<std::byte> out(step);
  for (uint64_t at = 0; at < source.size(); at += step)
    ASSERT_EQ(source.read_ahead(at, out, {0, source.size()}).value(), step);
}

TEST(StridedRequests, ReadsOfHeadsInOrderTransferEachByteOnce) {
  const auto server = std::make_shared<Requested>(some_bytes(100 + 4 * kHead));
  const Slice heads = heads_of(server);
  const auto held = heads.keep_cached();
  const uint64_t before = recent_blocks_size();
  read_in_order(heads, 32 * 1024);
  EXPECT_LE(server->bytes_read, heads.size() + 2 * 32 * 1024) << "the first part of a block is read alone";
  EXPECT_LE(recent_blocks_size() - before, heads.size());
}

class Local final : public Leaf {
 public:
  uint64_t size() const override { return 100 + 4 * kHead; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    bytes_read += bytes_inside(size(), offset, out.size());
    return bytes_inside(size(), offset, out.size());
  }

  mutable uint64_t bytes_read = 0;
};

TEST(StridedRequests, LongRowsOfLocalFilesAreReadWithoutBlocks) {
  const auto file = std::make_shared<Local>();
  const Slice heads = heads_of(file);
  const auto held = heads.keep_cached();
  const uint64_t before = recent_blocks_size();
  read_in_order(heads, 32 * 1024);
  EXPECT_EQ(file->bytes_read, heads.size());
  EXPECT_EQ(recent_blocks_size(), before);
}

TEST(StridedRequests, ShortRowsOfHeadsNeedSmallBlocks) {
  const auto server = std::make_shared<Requested>(some_bytes(uint64_t{4} << 20));
  const Slice storage = slice(server, 0, server->size()).value();
  const Slice heads = strided_as("uint8", storage, 0, {32, 128, 2, 512}, {128 * 1024, 512, 128 * 512, 1});
  const auto held = heads.keep_cached();
  const uint64_t before = recent_blocks_size();
  read_in_order(heads, 4096);
  EXPECT_LE(server->bytes_read, heads.size() + heads.size() / 4) << "the first part of each block is read alone";
  EXPECT_LE(recent_blocks_size() - before, heads.size());
}

TEST(StridedRequests, PrefetchOfHeadsRequestsWholeHeads) {
  const auto server = std::make_shared<Requested>(some_bytes(100 + 4 * kHead));
  const Slice heads = heads_of(server);
  ASSERT_TRUE(heads.prefetch({kHead + 1, 2 * kHead + 1}));
  EXPECT_EQ(server->prefetched, (Requested::Ranges{{100 + kHead, 100 + 3 * kHead}}));
  ASSERT_TRUE(heads.prefetch({0, heads.size()}));
  EXPECT_EQ(server->prefetched.back(), (std::pair<uint64_t, uint64_t>{100, 100 + 4 * kHead}));
  ASSERT_TRUE(heads.prefetch({5, 5}));
  EXPECT_EQ(server->prefetched.size(), 2U);
}

TEST(StridedRequests, CachedBytesOfHeadsAreThoseOfTheStorage) {
  const auto server = std::make_shared<Requested>(some_bytes(100 + 4 * kHead));
  const Slice heads = heads_of(server);
  EXPECT_EQ(heads.cached({0, heads.size()}).value().now, 0U);
  server->cached_end = 100 + 3 * kHead;
  EXPECT_EQ(heads.cached({0, heads.size()}).value().now, 3 * kHead);
  EXPECT_EQ(heads.cached({kHead, 2 * kHead}).value().before, kHead);
  server->cached_end = 100 + 4 * kHead;
  EXPECT_EQ(heads.cached({0, heads.size()}).value().now, heads.size());
}

// The first half of each expert's rows.
TEST(StridedRequests, PrefetchLeavesOutWhatOtherTensorsHave) {
  constexpr uint64_t kHalf = 100'000;
  const auto server = std::make_shared<Requested>(std::string(6 * kHalf, 'x'));
  const Slice storage = slice(server, 0, server->size()).value();
  const Slice first = strided_as("uint8", storage, 0, {3, kHalf}, {2 * kHalf, 1});
  ASSERT_TRUE(first.prefetch({0, first.size()}));
  EXPECT_EQ(server->prefetched, (Requested::Ranges{{0, kHalf}, {2 * kHalf, 3 * kHalf}, {4 * kHalf, 5 * kHalf}}));
  std::vector<std::byte> out(10);
  ASSERT_EQ(first.read_ahead(kHalf + 5, out, {0, first.size()}).value(), 10U);
  EXPECT_EQ(server->expected.from, 2 * kHalf);
  EXPECT_EQ(server->expected.to, 3 * kHalf);
}

TEST(StridedRequests, PrefetchOfTransposedMatrixRequestsAllOfIt) {
  const auto server = std::make_shared<Requested>(std::string(600, 'x'));
  const Slice storage = slice(server, 0, server->size()).value();
  ASSERT_TRUE(strided_as("uint8", storage, 0, {20, 30}, {1, 20}).prefetch({0, 600}));
  EXPECT_EQ(server->prefetched, (Requested::Ranges{{0, 600}}));
  const Slice expanded = strided_as("uint8", storage, 7, {1 << 20, 2}, {0, 1});
  ASSERT_TRUE(expanded.prefetch({0, expanded.size()}));
  EXPECT_EQ(server->prefetched.back(), (std::pair<uint64_t, uint64_t>{7, 9}));
}

}  // namespace
}  // namespace weightfs::strided_requests_test
