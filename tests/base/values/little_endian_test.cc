#include "base/values/little_endian.h"

#include <gtest/gtest.h>

namespace weightfs::little_endian_test {
namespace {

TEST(LittleEndian, NumbersOfEachSizeAreRead) {
  EXPECT_EQ(little_endian(""), 0U);
  EXPECT_EQ(little_endian("\xFF"), 0xFFU);
  EXPECT_EQ(little_endian("\x02\x01"), 0x0102U);
  EXPECT_EQ(little_endian("\x08\x07\x06\x05\x04\x03\x02\x81"), 0x8102'0304'0506'0708U);
}

TEST(LittleEndian, LowBytesAreAppended) {
  std::string bytes = "x";
  append_little_endian(bytes, 0x1234'5678, 2);
  append_little_endian(bytes, UINT64_MAX, 8);
  append_little_endian(bytes, 1, 0);
  EXPECT_EQ(bytes, "x\x78\x56" + std::string(8, '\xFF'));
  EXPECT_EQ(little_endian(std::string_view(bytes).substr(1, 2)), 0x5678U);
}

}  // namespace
}  // namespace weightfs::little_endian_test
