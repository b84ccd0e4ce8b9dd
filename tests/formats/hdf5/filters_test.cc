#include "formats/hdf5/filters.h"

#include <gmock/gmock.h>

#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "tests/builders/hdf5_builder.h"

namespace weightfs::hdf5::filters_test {
namespace {

using test::le;
using ::testing::HasSubstr;

// The decoded chunk of `bytes` bytes, or the error.
std::string undone(std::string stored, const std::vector<Filter>& filters, uint64_t bytes, uint32_t mask = 0) {
  const auto chunk = undo_filters(in_memory(std::move(stored)), filters, mask, bytes);
  return chunk ? *chunk : chunk.error().message;
}

std::vector<uint32_t> scale_offset(uint32_t type_class, uint32_t size, uint32_t kind = 2, uint32_t factor = 0) {
  std::vector<uint32_t> values(20);
  values[0] = kind;
  values[1] = factor;
  values[3] = type_class;
  values[4] = size;
  return values;
}

std::string scale_offset_chunk(uint32_t bits, uint64_t minimum, const std::string& packed) {
  return le(bits, 4) + le(8, 1) + le(minimum, 8) + std::string(8, '\0') + packed;
}

TEST(Hdf5Filters, AreUndoneInReverseOrder) {
  const std::string stored = test::zlib_stored(test::shuffled("abcdefgh", 4));
  EXPECT_EQ(undone(stored, {{2, {4}}, {1, {6}}}, 8), "abcdefgh");
}

TEST(Hdf5Filters, SkippedFilterIsNotUndone) { EXPECT_EQ(undone("abcd", {{1, {6}}}, 4, 1), "abcd"); }

TEST(Hdf5Filters, ElementsOfMoreThanOneGroupAreUnshuffled) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += le(static_cast<uint64_t>(i), 3);
  EXPECT_EQ(undone(test::shuffled(bytes, 3) + "x", {{2, {3}}}, 3001), bytes + "x");
}

TEST(Hdf5Filters, ChunkWithoutFiltersIsReadOnlyIfItHasItsSize) {
  class Unreadable final : public Source {
   public:
    uint64_t size() const override { return uint64_t{3} << 30; }
    Result<size_t> read(uint64_t, std::span<std::byte>) const override { return failure(Code::io, "read"); }
  };
  const auto chunk = undo_filters(std::make_shared<Unreadable>(), {}, 0, 16);
  ASSERT_FALSE(chunk);
  EXPECT_EQ(chunk.error().message, "a chunk of 3221225472 bytes, not 16");
}

TEST(Hdf5Filters, CancelledWorkEnds) {
  const std::vector<std::pair<Filter, std::string>> chunks = {
      {{1, {6}}, test::zlib_stored(std::string(60'000, 'x'))},
      {{2, {4}}, std::string(60'000, 'x')},
      {{32000, {}}, std::string("\0x", 2)},
      {{6, scale_offset(0, 2)}, scale_offset_chunk(0, 7, "")},
  };
  for (const auto& [filter, stored] : chunks) {
    const CancelScope scope([] { return true; });
    const auto chunk = undo_filters(in_memory(stored), std::vector{filter}, 0, 60'000);
    ASSERT_FALSE(chunk) << filter.id;
    EXPECT_EQ(chunk.error().code, Code::resource) << filter.id;
  }
}

TEST(Hdf5Filters, NumbersOfBitsAcrossBytesAreUnpacked) {
  EXPECT_EQ(undone(scale_offset_chunk(11, 0, "\xFF\xE0\x03\xFF\xFF\xFF"), {{6, scale_offset(0, 2)}}, 8),
            le(0x7FF, 2) + le(0, 2) + le(0x7FF, 2) + le(0x7FF, 2));
}

TEST(Hdf5Filters, BytesAfterTheLastElementAreNotShuffled) { EXPECT_EQ(undone("acbdx", {{2, {2}}}, 5), "abcdx"); }

TEST(Hdf5Filters, ChunkOfAnotherSizeIsCorrupt) {
  EXPECT_EQ(undone("abc", {}, 4), "a chunk of 3 bytes, not 4");
  EXPECT_EQ(undone(test::zlib_stored(std::string(200, 'x')), {{1, {6}}}, 4), "a chunk of more than 4 bytes");
}

TEST(Hdf5Filters, DamagedDeflateIsCorrupt) {
  std::string stored = test::zlib_stored("abcd");
  stored.back() = static_cast<char>(stored.back() + 1);
  EXPECT_THAT(undone(stored, {{1, {6}}}, 4), HasSubstr("zlib: "));
  EXPECT_THAT(undone(test::zlib_stored("abcd").substr(0, 6), {{1, {6}}}, 4), HasSubstr("zlib: "));
  EXPECT_THAT(undone("", {{1, {6}}}, 4), HasSubstr("zlib: "));
}

// The words 6162, 6364 and 6566: their sum is 12A2C, the sum of the sums 25054; both are folded to 16 bits.
TEST(Hdf5Filters, ZstandardIsDecoded) {
  EXPECT_EQ(undone(test::zstd::sized_frame("abcdefgh"), {{32015, {3}}}, 8), "abcdefgh");
  EXPECT_EQ(undone(test::zstd::frame(test::zstd::run_block('a', 8)), {{32015, {}}}, 8), "aaaaaaaa");
  EXPECT_EQ(undone(test::zstd::sized_frame(test::shuffled("abcdefgh", 4)), {{2, {4}}, {32015, {3}}}, 8), "abcdefgh");
  const std::string sum = le(fletcher32(test::zstd::sized_frame("abcd")), 4);
  EXPECT_EQ(undone(test::zstd::sized_frame("abcd") + sum, {{32015, {3}}, {3, {}}}, 4), "abcd");
  EXPECT_EQ(undone(test::zstd::sized_frame("abcd"), {{32015, {3}}}, 8), "a chunk of 4 bytes, not 8");
  EXPECT_EQ(undone(test::zstd::bomb(100), {{32015, {3}}}, 8), "a chunk of more than 8 bytes");
  EXPECT_THAT(undone("abcd", {{32015, {3}}}, 4), HasSubstr("zstd"));
}

TEST(Hdf5Filters, Fletcher32IsVerified) {
  EXPECT_EQ(fletcher32("abcdef"), 0x50562A2DU);
  EXPECT_EQ(undone("abcde" + le(fletcher32("abcde"), 4), {{3, {}}}, 5), "abcde");
  EXPECT_THAT(undone("abcde" + le(1, 4), {{3, {}}}, 5), HasSubstr("Fletcher-32 checksum"));
  EXPECT_THAT(undone("abc", {{3, {}}}, 5), HasSubstr("without its Fletcher-32"));
}

// A run of literal bytes, then references: to the last byte nine times, and four bytes back.
TEST(Hdf5Filters, LzfIsDecoded) {
  const Filter lzf{32000, {4, 261, 64}};
  EXPECT_EQ(undone(std::string("\3abcd\xE0\0\0", 8), {lzf}, 13), "abcdddddddddd");
  EXPECT_EQ(undone(std::string("\3abcd\x40\3", 7), {lzf}, 8), "abcdabcd");
  EXPECT_EQ(undone(std::string("\3ab"), {lzf}, 4), "lzf: truncated");
  EXPECT_EQ(undone(std::string("\x20\0", 2), {lzf}, 4), "lzf: a reference before the beginning");
  EXPECT_THAT(undone(std::string("\0a\xE0\xFF\0", 5), {lzf}, 4), HasSubstr("a chunk of more than"));
}

TEST(Hdf5Filters, ScaleOffsetAddsTheMinimumToPackedDifferences) {
  const Filter filter{6, scale_offset(0, 2)};
  EXPECT_EQ(undone(scale_offset_chunk(4, 100, "\x0F\x12"), {filter}, 8),
            le(100, 2) + le(115, 2) + le(101, 2) + le(102, 2));
  EXPECT_EQ(undone(scale_offset_chunk(0, 7, ""), {filter}, 4), le(7, 2) + le(7, 2));
  EXPECT_EQ(undone(scale_offset_chunk(16, 0, "abcd"), {filter}, 4), "abcd");
}

TEST(Hdf5Filters, ScaleOffsetDividesFloatingPointNumbers) {
  const Filter filter{6, scale_offset(1, 4, 0, 1)};
  const auto bits = [](float number) { return le(std::bit_cast<uint32_t>(number), 4); };
  EXPECT_EQ(undone(scale_offset_chunk(8, std::bit_cast<uint32_t>(2.0F), "\x05\x0A"), {filter}, 8),
            bits(2.5F) + bits(3.0F));
}

TEST(Hdf5Filters, InvalidScaleOffsetIsRefused) {
  EXPECT_THAT(undone(scale_offset_chunk(4, 0, "\x0F"), {{6, scale_offset(0, 2)}}, 8),
              HasSubstr("4 bits for each of 4"));
  EXPECT_THAT(undone(scale_offset_chunk(99, 0, "\x0F"), {{6, scale_offset(0, 2)}}, 2), HasSubstr("99 bits"));
  EXPECT_THAT(undone("short", {{6, scale_offset(0, 2)}}, 2), HasSubstr("truncated"));
  EXPECT_THAT(undone("", {{6, {}}}, 2), HasSubstr("parameters are missing"));
  EXPECT_THAT(undone("", {{6, scale_offset(0, 3)}}, 2), HasSubstr("numbers of 3 bytes"));
}

}  // namespace
}  // namespace weightfs::hdf5::filters_test
