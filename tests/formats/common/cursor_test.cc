#include "formats/common/cursor.h"

#include <gtest/gtest.h>

#include <limits>

namespace weightfs::cursor_test {
namespace {

constexpr std::string_view kBytes("\x01\x02\x03\x04\x00\x00\x80\x3f", 8);

TEST(Cursor, ReadsLittleEndianNumbers) {
  const SourcePtr source = in_memory(std::string(kBytes));
  Cursor cursor(*source, 0, 8);
  EXPECT_EQ(cursor.number<uint8_t>().value(), 1);
  EXPECT_EQ(cursor.number<uint16_t>().value(), 0x0302);
  EXPECT_EQ(cursor.number<int8_t>().value(), 4);
  EXPECT_EQ(cursor.number<float>().value(), 1.0F);
  EXPECT_EQ(cursor.left(), 0U);
}

TEST(Cursor, ReadsBigEndianNumbers) {
  const SourcePtr source = in_memory(std::string(kBytes));
  Cursor cursor(*source, 0, 8, std::endian::big);
  EXPECT_EQ(cursor.number<uint32_t>().value(), 0x01020304U);
}

TEST(Cursor, NeverReadsOutsideItsRange) {
  const SourcePtr source = in_memory(std::string(kBytes));
  Cursor cursor(*source, 2, 5);
  EXPECT_FALSE(cursor.number<uint32_t>());
  EXPECT_FALSE(cursor.text(4));
  EXPECT_FALSE(cursor.skip(4));
  EXPECT_EQ(cursor.position(), 2U) << "a read that failed moves nothing";
  EXPECT_EQ(cursor.text(3).value(), kBytes.substr(2, 3));
  EXPECT_FALSE(cursor.number<uint8_t>());
}

TEST(Cursor, ClampsItsRangeToTheSource) {
  const SourcePtr source = in_memory("abc");
  Cursor cursor(*source, 1, UINT64_MAX);
  EXPECT_EQ(cursor.left(), 2U);
  EXPECT_EQ(Cursor(*source, UINT64_MAX, UINT64_MAX).left(), 0U);
}

TEST(Cursor, CountsAreBoundedByRemainingBytes) {
  const SourcePtr source = in_memory(std::string(100, 'x'));
  Cursor cursor(*source, 0, 100);
  EXPECT_EQ(cursor.bounded(25, 4).value(), 25U);
  EXPECT_FALSE(cursor.bounded(26, 4));
  EXPECT_FALSE(cursor.bounded(std::numeric_limits<uint64_t>::max(), 1));
}

TEST(Cursor, ValuesMayCrossBufferAnywhere) {
  std::string bytes;
  for (int i = 0; i < 300'000; ++i) bytes += static_cast<char>(i % 251);
  const SourcePtr source = in_memory(bytes);
  Cursor cursor(*source, 0, bytes.size());
  std::string read;
  for (size_t size = 1; cursor.left() >= size; size = size % 977 + 1) read += cursor.text(size).value();
  EXPECT_EQ(read, bytes.substr(0, read.size()));
  Cursor skipper(*source, 0, bytes.size());
  ASSERT_TRUE(skipper.skip(200'000));
  EXPECT_EQ(skipper.text(90'000).value(), bytes.substr(200'000, 90'000));
  EXPECT_EQ(skipper.position(), 290'000U);
}

}  // namespace
}  // namespace weightfs::cursor_test
