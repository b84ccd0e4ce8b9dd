#include "formats/hdf5/fields.h"

#include <gtest/gtest.h>

namespace weightfs::hdf5::fields_test {
namespace {

// The values that Bob Jenkins gives for hashlittle().
TEST(Hdf5Fields, Lookup3HasThePublishedValues) {
  EXPECT_EQ(lookup3(""), 0xDEADBEEFU);
  EXPECT_EQ(lookup3("Four score and seven years ago"), 0x17770551U);
}

TEST(Hdf5Fields, AddressOfAllOnesIsUndefined) {
  EXPECT_EQ(Fields("\xFF\xFF", {2, 2}).address().value(), kUndefined);
  EXPECT_EQ(Fields("\xFE\xFF", {2, 2}).address().value(), 0xFFFEU);
}

TEST(Hdf5Fields, EndOfTheBlockIsAnError) {
  Fields fields("abc", {});
  EXPECT_EQ(fields.number(2).value(), 0x6261U);
  EXPECT_EQ(fields.number(2).error().message, "a block of 3 bytes ends where 2 more are needed");
  EXPECT_EQ(fields.terminated().error().message, "a text without its end");
}

TEST(Hdf5Fields, BytesForANumber) {
  EXPECT_EQ(bytes_for(0), 1U);
  EXPECT_EQ(bytes_for(255), 1U);
  EXPECT_EQ(bytes_for(256), 2U);
  EXPECT_EQ(bytes_for(~uint64_t{0}), 8U);
}

}  // namespace
}  // namespace weightfs::hdf5::fields_test
