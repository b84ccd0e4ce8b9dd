#include "formats/checksums/range_checksums.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/digest.h"
#include "tests/support/reading.h"

namespace weightfs {
namespace {

using test::error_in;
using testing::ElementsAre;
using testing::IsEmpty;

uint32_t crc32c_of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

struct CheckedText : RangeChecksums {
  SourcePtr bytes;
};

// "OFFSET+SIZE right" for each range in the order in which they end, and the error.
std::vector<std::string> found_in(const CheckedText& file) {
  std::vector<std::string> lines;
  const auto done = each_range_sum(
      *file.bytes, file, [](uint64_t) {},
      [&](const RangeChecksum& range, uint32_t stored, uint32_t found) {
        lines.push_back(fmt::format("{}+{} {}", range.offset, range.size, stored == found ? "right" : "wrong"));
      });
  if (!done) lines.push_back(done.error().message);
  return lines;
}

CheckedText file_of(const std::string& text, const std::vector<std::pair<uint64_t, uint64_t>>& ranges) {
  CheckedText file{{}, in_memory(text)};
  for (const auto& [offset, size] : ranges)
    file.ranges.push_back({.offset = offset, .size = size, .crc32c = crc32c_of(text.substr(offset, size))});
  return file;
}

TEST(RangeChecksums, RangesThatOverlapAreReadOnce) {
  CheckedText file = file_of("0123456789", {{4, 4}, {0, 10}, {5, 1}, {3, 0}, {9, 1}});
  EXPECT_THAT(found_in(file), ElementsAre("3+0 right", "0+10 right", "4+4 right", "5+1 right", "9+1 right"));
  file.ranges[0].crc32c ^= 1;
  EXPECT_THAT(found_in(file), ElementsAre("3+0 right", "0+10 right", "4+4 wrong", "5+1 right", "9+1 right"));
}

TEST(RangeChecksums, RangesLongerThanABufferAreRight) {
  std::string text;
  for (int i = 0; i < 700'000; ++i) text += fmt::format("{}.", i);
  uint64_t read = 0;
  std::vector<uint64_t> right;
  const CheckedText file = file_of(text, {{100, 3'000'000}, {1'048'570, 10}, {3'000'200, 5}});
  const auto done = each_range_sum(
      *file.bytes, file, [&](uint64_t count) { read += count; },
      [&](const RangeChecksum& range, uint32_t stored, uint32_t found) {
        if (stored == found) right.push_back(range.offset);
      });
  EXPECT_TRUE(done);
  EXPECT_THAT(right, ElementsAre(1'048'570, 100, 3'000'200));
  EXPECT_EQ(read, 3'000'005U);
  EXPECT_EQ(file.bytes_in_ranges(text.size()), 3'000'015U);
}

TEST(RangeChecksums, RangesOutsideOfTheFileAreRefused) {
  CheckedText file = file_of("0123", {{0, 4}});
  file.ranges[0].size = 5;
  EXPECT_THAT(found_in(file), ElementsAre("5 bytes at 0, it has 4"));
  file.ranges[0] = {.offset = ~uint64_t{0}, .size = 2};
  EXPECT_THAT(found_in(file), ElementsAre("2 bytes at 18446744073709551615, it has 4"));
}

TEST(RangeChecksums, RangesThatShareManyBytesAreNotRead) {
  CheckedText file{{}, in_memory(std::string(1'000'000, 'x'))};
  file.ranges.assign(66, {.offset = 0, .size = 1'000'000});
  EXPECT_THAT(found_in(file), testing::SizeIs(66));
  file.ranges.resize(67, file.ranges[0]);
  EXPECT_THAT(found_in(file), ElementsAre("not checked: ranges that overlap have more than twice its bytes"));
}

TEST(RangeChecksums, LengthsCountAsNumbers) {
  const std::string lengths = "\x05\x80\x01\x80\x80\x80\x80\x10";  // 5, 128, 2^32
  const std::string numbers("\5\0\0\0\x80\0\0\0\0\0\0\0\1\0\0\0", 16);
  for (size_t step = 1; step < 12; ++step) {
    RangeSum sum(3);
    const std::string stored = lengths + "text";
    for (size_t at = 0; at < stored.size(); at += step)
      sum.update(std::as_bytes(std::span(std::string_view(stored).substr(at, step))));
    EXPECT_EQ(sum.crc32c(), crc32c_of(numbers + "text")) << step;
  }
}

TEST(RangeChecksums, ChecksumOfATableIsBehindTheRange) {
  const std::string text = "block" + std::string("\0\0\0\0", 4);
  CheckedText file{{.is_table = true}, in_memory(text)};
  file.ranges.push_back({.offset = 0, .size = 5});
  EXPECT_THAT(found_in(file), ElementsAre("0+5 wrong"));
  file.ranges[0].size = 6;
  EXPECT_THAT(found_in(file), testing::SizeIs(1));  // its checksum is not inside
  EXPECT_EQ(unmasked_crc32c(0xa282ead8U), 0U);
}

}  // namespace
}  // namespace weightfs
