#include "formats/dtype.h"

#include <gtest/gtest.h>

#include "formats/model.h"

namespace weightfs::dtype_test {
namespace {

std::optional<uint64_t> size_of(std::string_view dtype, const Shape& shape) {
  return size_in_bytes(*dtype_named(dtype), shape);
}

TEST(DType, IsFoundByName) {
  ASSERT_NE(dtype_named("q4_k"), nullptr);
  EXPECT_EQ(dtype_named("q4_k")->name, "q4_k");
  for (const char* name : {"", "Q4_K", "F32", "float", "float32 ", "unknown"})
    EXPECT_EQ(dtype_named(name), nullptr) << name;
}

TEST(DType, SizeIsBytesPerElement) {
  EXPECT_EQ(size_of("float32", {2, 3}), 24U);
  EXPECT_EQ(size_of("complex64", {2, 3}), 48U);
  EXPECT_EQ(size_of("bool", {7}), 7U);
  EXPECT_EQ(size_of("float64", {}), 8U) << "a scalar";
  EXPECT_EQ(size_of("float64", {5, 0}), 0U);
}

// TVM and ml_dtypes spend a byte on each of the small integers.
TEST(DType, SmallIntegersTakeOneByte) {
  for (const char* name : {"int2", "uint2", "int4", "uint4"}) {
    EXPECT_EQ(size_of(name, {3, 5}), 15U) << name;
    EXPECT_EQ(dtype_named(name)->npy_descr, name[0] == 'u' ? "|u1" : "|i1") << name;
    EXPECT_EQ(dtype_named(name)->low_bits, static_cast<uint32_t>(std::string_view(name).back() - '0')) << name;
  }
}

// ONNX and TFLite pack the elements of a tensor without regard to its rows.
TEST(DType, SizeOfPackedTypeIsRoundedUpToBytes) {
  const auto packed_size = [](std::string_view name, const Shape& shape) {
    return size_in_bytes(*packed_dtype_named(name), shape);
  };
  EXPECT_EQ(packed_size("int4", {3, 5}), 8U);
  EXPECT_EQ(packed_size("uint2", {}), 1U) << "a scalar";
  EXPECT_EQ(packed_size("uint6", {5}), 4U);
  EXPECT_EQ(packed_size("uint1", {0}), 0U);
  EXPECT_EQ(packed_size("uint4", {uint64_t{1} << 62}), std::nullopt) << "more bits than 64 bits can count";
  EXPECT_EQ(packed_dtype_named("float32"), nullptr);
}

TEST(DType, HasComplexTypesOfNumPy) {
  EXPECT_EQ(size_of("complex128", {3}), 48U);
  EXPECT_EQ(dtype_named("complex128")->npy_descr, "<c16");
}

TEST(DType, HasFloat8TypesOfMlDtypes) {
  for (const char* name : {"float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
                           "float8_e5m2fnuz", "float8_e8m0fnu"}) {
    EXPECT_EQ(size_of(name, {3}), 3U) << name;
    EXPECT_EQ(dtype_named(name)->npy_descr, "") << name;
  }
}

TEST(DType, QuantisedTypesAreThoseOfGgml) {
  for (const char* name : {"q4_0", "q6_k", "mxfp4", "q8_1"}) EXPECT_TRUE(is_quantised(*dtype_named(name))) << name;
  for (const char* name : {"bfloat16", "int4", "float4_e2m1fn", "float6_e2m3fn", "string"})
    EXPECT_FALSE(is_quantised(*dtype_named(name))) << name;
  EXPECT_FALSE(is_quantised(*packed_dtype_named("int4")));
}

// ggml quantises rows: a block never spans two rows.
TEST(DType, BlockTypesFillInnermostDimension) {
  EXPECT_EQ(size_of("q4_0", {32}), 18U);
  EXPECT_EQ(size_of("q4_0", {3, 64}), 6U * 18);
  EXPECT_EQ(size_of("q6_k", {2, 2, 512}), 8U * 210);
  EXPECT_EQ(size_of("q4_0", {33}), std::nullopt);
  EXPECT_EQ(size_of("q4_0", {64, 16}), std::nullopt) << "enough elements, but half a block in each row";
  EXPECT_EQ(size_of("q4_0", {}), std::nullopt);
  EXPECT_EQ(size_of("q4_0", {5, 0}), 0U);
}

// safetensors packs all elements of a tensor, without row boundaries.
TEST(DType, PackedTypesFillWholeBytes) {
  EXPECT_EQ(size_of("float4_e2m1fn", {3, 2}), 3U);
  EXPECT_EQ(size_of("float4_e2m1fn", {2, 3}), 3U) << "rows may share a byte";
  EXPECT_EQ(size_of("float4_e2m1fn", {3}), std::nullopt);
  EXPECT_EQ(size_of("float6_e3m2fn", {2, 2}), 3U);
  EXPECT_EQ(size_of("float6_e3m2fn", {6}), std::nullopt);
}

TEST(DType, HasNoSizeBeyond64Bits) {
  constexpr uint64_t kHalf = uint64_t{1} << 32;
  EXPECT_EQ(size_of("uint8", {kHalf, kHalf - 1}), kHalf * (kHalf - 1));
  EXPECT_EQ(size_of("uint8", {kHalf, kHalf}), std::nullopt);
  EXPECT_EQ(size_of("float32", {kHalf, kHalf / 2}), std::nullopt) << "the elements fit, their bytes do not";
  EXPECT_EQ(size_of("q4_0", {kHalf, kHalf}), std::nullopt);
  EXPECT_EQ(size_of("q4_0", {kHalf / 2, kHalf}), (kHalf / 2) * kHalf / 32 * 18);
  EXPECT_EQ(size_in_bytes(kUnknownDType, Shape{1}), std::nullopt);
}

TEST(Shape, ElementsAreCountedUpTo64Bits) {
  EXPECT_EQ(elements_of(Shape{}), 1U) << "a scalar";
  EXPECT_EQ(elements_of(Shape{2, 0, 3}), 0U);
  EXPECT_EQ(elements_of(Shape{2, 3}, 4), 24U);
  EXPECT_EQ(elements_of(Shape{UINT64_MAX}), UINT64_MAX);
  EXPECT_EQ(elements_of(Shape{uint64_t{1} << 32, uint64_t{1} << 32}), std::nullopt);
  EXPECT_EQ(elements_of(Shape{uint64_t{1} << 63}, 2), std::nullopt);
}

TEST(DType, BigEndianDiffersOnlyInNumpyView) {
  for (const char* name : {"int16", "int32", "int64", "float16", "float32", "float64"}) {
    const DType* little = dtype_named(name);
    const DType* big = big_endian(little);
    EXPECT_EQ(big->npy_descr, '>' + std::string(little->npy_descr.substr(1)));
    EXPECT_EQ(std::tie(big->name, big->block, big->block_bytes),
              std::tie(little->name, little->block, little->block_bytes));
  }
  EXPECT_EQ(big_endian(dtype_named("bfloat16"))->npy_descr, "");
  for (const char* name : {"q4_0", "q6_k", "iq1_m"}) {
    const DType* big = big_endian(dtype_named(name));
    EXPECT_EQ(big->order, ByteOrder::big) << name;
    EXPECT_EQ(size_in_bytes(*big, Shape{2, 256}), size_of(name, {2, 256})) << name;
  }
  for (const char* name : {"int8", "bool", "mxfp4"}) EXPECT_EQ(big_endian(dtype_named(name)), dtype_named(name));
  EXPECT_EQ(big_endian(&kUnknownDType), &kUnknownDType);
}

}  // namespace
}  // namespace weightfs::dtype_test
