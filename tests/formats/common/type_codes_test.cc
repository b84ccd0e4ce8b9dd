#include "formats/common/type_codes.h"

#include <gtest/gtest.h>

#include <array>

namespace weightfs::test::type_codes_test {
namespace {

constexpr std::array kRows = {
    TypeCode{1, "FLOAT", "float32"},
    TypeCode{21, "UINT4", "uint4", true},
    TypeCode{22, "VARIANT", ""},
};
constexpr TypeCodes<> kTypes(kRows);

TEST(TypeCodes, KnownCodeHasItsNameAndDType) {
  EXPECT_EQ(kTypes.name(1), "FLOAT");
  EXPECT_EQ(dtype_of(kTypes.find(1)), dtype_named("float32"));
  EXPECT_EQ(dtype_of(kTypes.find(21)), packed_dtype_named("uint4"));
}

TEST(TypeCodes, UnknownCodeHasTheUnknownDType) {
  EXPECT_EQ(kTypes.find(2), nullptr);
  EXPECT_EQ(kTypes.find((int64_t{1} << 32) + 1), nullptr);
  EXPECT_EQ(kTypes.name(-3), "unknown(-3)");
  EXPECT_EQ(dtype_of(kTypes.find(2)), &kUnknownDType);
  EXPECT_EQ(dtype_of(kTypes.find(22)), &kUnknownDType);
}

}  // namespace
}  // namespace weightfs::test::type_codes_test
