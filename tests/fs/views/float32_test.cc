#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fs/layout/layout.h"
#include "fs/tree/forest.h"
#include "fs/views/npy.h"
#include "tests/builders/quantised_blocks.h"
#include "tests/support/models.h"

namespace weightfs::float32_view_test {
namespace {

// A mount of one tensor.
class Float32View : public testing::Test {
 protected:
  void mount(Tensor tensor) {
    auto model = std::make_shared<Model>();
    tensor.name = "w";
    model->tensors.push_back(tensor);
    forest = std::make_unique<Forest>(lay_out(std::move(model), "m", 0));
  }

  bool exists(const std::string& path) { return forest->resolve(path).has_value(); }

  std::string cat(const std::string& path) {
    const Ino ino = forest->resolve(path).value();
    const SourcePtr source = forest->open(ino).value();
    EXPECT_EQ(forest->attributes(ino)->size, source->size()) << path;
    return read_text(*source, 0, source->size()).value();
  }

  // Checks the header, and returns what follows it.
  std::string values(const std::string& path, std::string_view shape) {
    const std::string bytes = cat(path);
    const std::string dict = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}", shape);
    EXPECT_EQ(bytes.substr(10, dict.size()), dict);
    return bytes.substr(128);
  }

  std::unique_ptr<Forest> forest;
};

// 1, 2 and 3 as float32.
const std::string kOneTwoThree("\0\0\x80\x3F\0\0\0\x40\0\0\x40\x40", 12);

// semantics 26.1
TEST_F(Float32View, QuantisedTensorIsFloat32InBoth) {
  for (const QuantisedSample& sample : quantised_samples()) {
    const DType* const dtype = dtype_named(sample.dtype);
    Tensor tensor = tensor_of(dtype, kSampleBlocks * dtype->block, quantised_blocks(sample));
    tensor.shape = {kSampleBlocks, dtype->block};
    mount(tensor);
    const std::string shape = fmt::format("({}, {})", kSampleBlocks, dtype->block);
    EXPECT_EQ(sha256(values("npy/w.npy", shape)).hex(), sample.digest) << sample.dtype;
    EXPECT_EQ(sha256(values("float32/w.npy", shape)).hex(), sample.digest) << sample.dtype;
    EXPECT_EQ(cat("tensors/w"), quantised_blocks(sample));
  }
}

// semantics 26.2
TEST_F(Float32View, NumbersOfOtherTypesAreConverted) {
  mount(tensor_of(dtype_named("uint8"), 3, "\x01\x02\x03"));
  EXPECT_EQ(values("float32/w.npy", "(3,)"), kOneTwoThree);
  EXPECT_EQ(cat("npy/w.npy").substr(128), "\x01\x02\x03") << "npy/ keeps the type";
  mount(tensor_of(packed_dtype_named("uint4"), 3, "\x21\x03"));
  EXPECT_EQ(values("float32/w.npy", "(3,)"), kOneTwoThree);
  Tensor pairs = tensor_of(dtype_named("float4_e2m1fn"), 4, "\x42\x05");
  pairs.shape = {2, 2};
  mount(pairs);
  EXPECT_EQ(values("float32/w.npy", "(2, 2)"), kOneTwoThree + std::string(4, '\0'));
}

// semantics 4.3
TEST_F(Float32View, NumbersThatNumpyLacksAreFloat32InBoth) {
  Tensor pairs = tensor_of(dtype_named("float4_e2m1fn"), 4, "\x42\x05");
  pairs.shape = {2, 2};
  for (const auto& [tensor, shape] :
       {std::pair{tensor_of(dtype_named("bfloat16"), 3, std::string("\x80\x3F\0\x40\x40\x40", 6)), "(3,)"},
        {tensor_of(big_endian(dtype_named("bfloat16")), 3, std::string("\x3F\x80\x40\0\x40\x40", 6)), "(3,)"},
        {tensor_of(dtype_named("float8_e4m3fn"), 3, "\x38\x40\x44"), "(3,)"},
        {tensor_of(dtype_named("float8_e5m2"), 3, "\x3C\x40\x42"), "(3,)"},
        {tensor_of(packed_dtype_named("float4_e2m1fn"), 3, "\x42\x05"), "(3,)"},
        {pairs, "(2, 2)"}}) {
    mount(tensor);
    const std::string expected = kOneTwoThree + std::string(shape == std::string("(2, 2)") ? 4 : 0, '\0');
    EXPECT_EQ(values("npy/w.npy", shape), expected) << tensor.dtype->name;
    EXPECT_EQ(values("float32/w.npy", shape), expected) << tensor.dtype->name;
    EXPECT_THAT(cat("metadata.json"), testing::HasSubstr(fmt::format("\"{}\": \"float32\"", tensor.dtype->name)));
  }
  mount(tensor_of(dtype_named("uint8"), 3, "\x01\x02\x03"));
  EXPECT_THAT(cat("metadata.json"), testing::Not(testing::HasSubstr("npy_dtypes")));
}

TEST_F(Float32View, LowBitsOfAByteAreAnInteger) {
  mount(tensor_of(dtype_named("int4"), 3, "\x0F\xF8\x37"));
  EXPECT_EQ(cat("npy/w.npy").substr(128), "\xFF\xF8\x07");
  EXPECT_THAT(cat("metadata.json"), testing::HasSubstr("\"int4\": \"int8\""));
  mount(tensor_of(dtype_named("uint2"), 3, std::string("\x03\xFC\x02", 3)));
  EXPECT_EQ(cat("npy/w.npy").substr(128), std::string("\x03\0\x02", 3));
}

TEST_F(Float32View, TensorsWithoutNumbersAreAbsent) {
  const Shape many = [] {
    Shape shape(32, 1);
    shape.push_back(32);
    return shape;
  }();
  Tensor refused = make_tensor("w", "float32", {1});
  refused.source = Slice();
  for (const Tensor& tensor : {make_tensor("w", "complex64", {2}), make_tensor("w", "q8_1", {32}),
                               make_tensor("w", "q4_0", many), make_tensor("w", "float32", many), refused}) {
    mount(tensor);
    EXPECT_FALSE(exists("float32/w.npy")) << tensor.dtype->name;
    EXPECT_TRUE(exists("tensors/w"));
  }
}

// The numbers of the one-bit elements of a hole of 2^58 bytes would need 2^63 bytes.
TEST_F(Float32View, FileLargerThan63BitsIsAbsent) {
  class Hole final : public Source {
   public:
    uint64_t size() const override { return uint64_t{1} << 58; }
    Result<size_t> read(uint64_t, std::span<std::byte> out) const override { return out.size(); }
  };
  Tensor tensor = tensor_of(packed_dtype_named("uint1"), uint64_t{1} << 61, "");
  tensor.source = slice(std::make_shared<Hole>(), 0, uint64_t{1} << 58).value();
  EXPECT_FALSE(views::has_float32_npy(tensor));
  tensor.shape = {uint64_t{1} << 60};
  tensor.source = slice(std::make_shared<Hole>(), 0, uint64_t{1} << 57).value();
  EXPECT_TRUE(views::has_float32_npy(tensor));
}

TEST_F(Float32View, EmptyTensorIsOnlyAHeader) {
  Tensor empty = tensor_of(dtype_named("q4_0"), 0, "");
  empty.shape = {3, 0};
  mount(empty);
  EXPECT_EQ(values("npy/w.npy", "(3, 0)"), "");
  EXPECT_EQ(values("float32/w.npy", "(3, 0)"), "");
}

}  // namespace
}  // namespace weightfs::float32_view_test
