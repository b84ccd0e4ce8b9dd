#include "fs/npy.h"

#include <gtest/gtest.h>

#include "tests/support/models.h"

namespace weightfs {
namespace {

std::string dict(const Tensor& tensor) {
  const std::string header = npy_header(tensor);
  EXPECT_EQ(header.size() % 64, 0U);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(static_cast<uint8_t>(header[8]) + 256U * static_cast<uint8_t>(header[9]), header.size() - 10);
  EXPECT_EQ(header.back(), '\n');
  const std::string text = header.substr(10);
  return text.substr(0, text.find_last_not_of(" \n") + 1);
}

// numpy.lib.format, "Format Version 1.0".
TEST(Npy, HasTheHeaderThatNumpyWrites) {
  EXPECT_EQ(dict(make_tensor("w", "float32", {2, 3})), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  EXPECT_EQ(dict(make_tensor("w", "int64", {5})), "{'descr': '<i8', 'fortran_order': False, 'shape': (5,), }");
  EXPECT_EQ(dict(make_tensor("w", "bool", {})), "{'descr': '|b1', 'fortran_order': False, 'shape': (), }");
}

// semantics 4.3
TEST(Npy, ShowsTypesThatNumpyHasNotAsVoidOrBytes) {
  EXPECT_EQ(dict(make_tensor("w", "bfloat16", {2})), "{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }");
  EXPECT_EQ(dict(make_tensor("w", "float8_e4m3fn", {2})), "{'descr': '|V1', 'fortran_order': False, 'shape': (2,), }");
  EXPECT_EQ(dict(make_tensor("w", "float4_e2m1fn", {3, 4})),
            "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2), }");
  EXPECT_EQ(dict(make_tensor("w", "float6_e2m3fn", {8})), "{'descr': '|u1', 'fortran_order': False, 'shape': (6,), }");
  EXPECT_EQ(dict(make_tensor("w", "float4_e2m1fn", {2, 3})),
            "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }");
}

// semantics 4.4
TEST(Npy, IsNotMadeWhereNumpyCouldNotReadIt) {
  EXPECT_FALSE(has_npy(make_tensor("w", "q4_0", {32})));
  EXPECT_TRUE(has_npy(make_tensor("w", "uint8", Shape(32, 1))));
  EXPECT_FALSE(has_npy(make_tensor("w", "uint8", Shape(33, 1))));
  Tensor refused = make_tensor("w", "float32", {1});
  refused.source = Slice();
  EXPECT_FALSE(has_npy(refused));
}

}  // namespace
}  // namespace weightfs
