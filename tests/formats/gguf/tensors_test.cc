#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/common/warnings.h"
#include "tests/support/gguf_reading.h"

namespace weightfs::tensors_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(GgufTensors, SizesOfAllTypesAreKnown) {
  // Number, elements in a block, bytes: sizeof of the structs in ggml-common.h.
  struct Size {
    uint32_t type;
    uint64_t block;
    size_t bytes;
  };
  constexpr Size kSizes[] = {
      {0, 1, 4},      {1, 1, 2},      {2, 32, 18},   {3, 32, 20},    {4, 32, 17},    {6, 32, 22},    {7, 32, 24},
      {8, 32, 34},    {9, 32, 36},    {10, 256, 84}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176}, {14, 256, 210},
      {15, 256, 292}, {16, 256, 66},  {17, 256, 74}, {18, 256, 98},  {19, 256, 50},  {20, 32, 18},   {21, 256, 110},
      {22, 256, 82},  {23, 256, 136}, {24, 1, 1},    {25, 1, 2},     {26, 1, 4},     {27, 1, 8},     {28, 1, 8},
      {29, 256, 56},  {30, 1, 2},     {31, 32, 18},  {32, 32, 18},   {33, 32, 18},   {34, 256, 54},  {35, 256, 66},
      {36, 32, 18},   {37, 32, 18},   {38, 32, 18},  {39, 32, 17},   {40, 64, 36},   {41, 128, 18},  {42, 64, 18}};
  GgufBuilder b;
  for (const Size& size : kSizes)
    b.tensor(std::to_string(size.type), {2 * size.block, 3}, size.type, std::string(6 * size.bytes, 'x'));
  const Model model = read_well(b.build());
  ASSERT_EQ(model.tensors.size(), std::size(kSizes));
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    EXPECT_EQ(model.tensors[i].nbytes(), 6 * kSizes[i].bytes) << kSizes[i].type;
    EXPECT_EQ(model.tensors[i].dtype->block, kSizes[i].block) << kSizes[i].type;
  }
}

TEST(GgufTensors, WarnsAboutAmbiguousTypes) {
  const Model model = read_well(
      GgufBuilder().tensor("o", {32}, 4, std::string(17, 'x')).tensor("r", {32}, 31, std::string(18, 'x')).build());
  EXPECT_THAT(listing(model), ElementsAre("o mxfp4 ggml-4 [32] " + std::string(17, 'x'),
                                          "r q4_0_4_4 Q4_0_4_4 [32] " + std::string(18, 'x')));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("1 tensor of type 4: the number that Ollama gave MXFP4"),
                                          HasSubstr("1 tensor of type 31: a type that ggml had in 2024")));
}

TEST(GgufTensors, TensorOfUnknownTypeEndsAtNextTensor) {
  GgufBuilder b;
  b.list("last", {1}, 99, 64).list("first", {1}, 99, 0).list("middle", {8}, 0, 32);
  const Model model = read_well(b.data(std::string(32, 'a') + std::string(32, 'b') + "ccc").build());
  EXPECT_THAT(listing(model),
              ElementsAre("last unknown ggml-99 [1] ccc", "first unknown ggml-99 [1] " + std::string(32, 'a'),
                          "middle float32 F32 [8] " + std::string(32, 'b')));
  EXPECT_THAT(model.warnings,
              ElementsAre("2 tensors of type 99: unknown type; its bytes are assumed to end at the next tensor",
                          "tensors are stored in another order than they are listed in"));
  EXPECT_EQ(model.tensors[0].stored_dtype.data(), model.tensors[1].stored_dtype.data()) << "one spelling for all";
}

TEST(GgufTensors, BoundsNamesOfUnknownTypes) {
  GgufBuilder b;
  for (uint32_t i = 0; i < 300; ++i) b.list(std::to_string(i), {1}, 1000 + i, 0);
  const Model model = read_well(b.list("known", {32}, 31, 0).data(std::string(32, 'x')).build());
  EXPECT_EQ(model.tensors[99].stored_dtype, "ggml-1099");
  EXPECT_EQ(model.tensors[100].stored_dtype, "ggml-unknown");
  EXPECT_EQ(model.tensors[299].stored_dtype, "ggml-unknown");
  EXPECT_EQ(model.tensors[300].stored_dtype, "Q4_0_4_4");
  EXPECT_EQ(model.string_pool.size(), 100u);
}

TEST(GgufTensors, AcceptsEmptyTensorAtUnpaddedEnd) {
  const std::string alone = GgufBuilder().list("w", {0}, 0, 0).header();
  ASSERT_NE(alone.size() % 32, 0u) << "else nothing is missing";
  const Model model = read_well(alone);
  EXPECT_THAT(listing(model), ElementsAre("w float32 F32 [0] "));
  EXPECT_THAT(model.warnings, IsEmpty());
  const Model second = read_well(GgufBuilder().list("v", {3}, 24, 0).list("w", {0}, 0, 32).data("vvv").build());
  EXPECT_THAT(listing(second), ElementsAre("v int8 I8 [3] vvv", "w float32 F32 [0] "));
  EXPECT_THAT(second.warnings, IsEmpty());
  EXPECT_THAT(read_well(GgufBuilder().list("w", {0}, 0, 64).header()).warnings,
              ElementsAre("tensor \"w\": offset 64 is outside the file"));
}

TEST(GgufTensors, AcceptsUnpaddedLastTensorAndEmptyTensor) {
  EXPECT_THAT(read_well(GgufBuilder().list("w", {3}, 24, 0).data("www").build()).warnings, IsEmpty());
  EXPECT_THAT(read_well(GgufBuilder().tensor("a", {0, 5}, 0, "").tensor("b", {4}, 24, "bbbb").build()).warnings,
              IsEmpty());
}

TEST(GgufTensors, UsesDeclaredAlignment) {
  GgufBuilder b;
  b.padded_to(256).u32("general.alignment", 256).tensor("a", {1}, 24, "a").tensor("b", {1}, 24, "b");
  const Model model = read_well(b.build());
  EXPECT_THAT(listing(model), ElementsAre("a int8 I8 [1] a", "b int8 I8 [1] b"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

// ggml's writer stores the key and pads to 32 all the same: the tensors' section begins 32 bytes before it should.
GgufBuilder aligned_to_64(size_t tensor_size, size_t padding) {
  GgufBuilder b;
  b.padded_to(padding)
      .u32("general.alignment", 64)
      .string("f", "0123456789abcdef")
      .tensor("a", {tensor_size}, 24, std::string(tensor_size, 'a'));
  return b.tensor("b", {tensor_size}, 24, std::string(tensor_size, 'b'));
}

TEST(GgufTensors, MissingAlignmentIsInferred) {
  for (const size_t size : {24u, 64u, 128u}) {
    ASSERT_EQ((aligned_to_64(size, 32).header().size() + 31) / 32 % 2, 1u) << "else nothing is shifted";
    const Model model = read_well(aligned_to_64(size, 32).build());
    EXPECT_EQ(listing(model).at(0), fmt::format("a int8 I8 [{}] {}", size, std::string(size, 'a')));
    EXPECT_EQ(listing(model).at(1), fmt::format("b int8 I8 [{}] {}", size, std::string(size, 'b')));
    EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("general.alignment is 64, but the tensors are aligned to 32")));
  }
}

TEST(GgufTensors, UsesAlignmentOfTruncatedFile) {
  const std::string whole = aligned_to_64(64, 64).build();
  const Model model = read_well(whole.substr(0, whole.size() - 20));
  EXPECT_THAT(listing(model), ElementsAre("a int8 I8 [64] " + std::string(64, 'a'), "b int8 I8 [64] refused"));
}

TEST(GgufTensors, TensorWithInvalidRangeIsListedRefused) {
  constexpr uint64_t kHuge = uint64_t{1} << 40;
  GgufBuilder b;
  b.tensor("good", {4}, 24, "good")
      .list("past", {64}, 0, 32)
      .list("far", {1}, 24, kHuge)
      .list("wrap", {1}, 24, UINT64_MAX - 31);
  // The product is 0 modulo 2^64, which ggml reads as an empty tensor.
  b.list("product", {kHuge, kHuge}, 0, 32).list("sum", {uint64_t{1} << 62, 2}, 1, 32).list("row", {33}, 2, 32);
  const Model model = read_well(b.build());
  EXPECT_THAT(listing(model), ElementsAre("good int8 I8 [4] good", "past float32 F32 [64] refused",
                                          "far int8 I8 [1] refused", "wrap int8 I8 [1] refused", HasSubstr("refused"),
                                          HasSubstr("refused"), HasSubstr("refused")));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"past\": 0 bytes left, 256 needed",
                                          "tensor \"far\": offset 1099511627776 is outside the file",
                                          "tensor \"wrap\": offset 18446744073709551584 is outside the file",
                                          "tensor \"product\": size in bytes overflows 64 bits",
                                          "tensor \"sum\": size in bytes overflows 64 bits",
                                          "tensor \"row\": rows of 33 elements are not whole blocks of 32"));
}

TEST(GgufTensors, IrregularLayoutAddsWarning) {
  GgufBuilder b;
  b.list("a", {8}, 24, 0)
      .list("b", {40}, 24, 64)
      .list("c", {8}, 24, 96)
      .list("d", {1}, 24, 129)
      .data(std::string(170, 'x'));
  EXPECT_THAT(read_well(b.build()).warnings,
              ElementsAre("tensor \"d\": offset 129 is not a multiple of 32", "tensor \"b\": 32 unused bytes before it",
                          "tensor \"c\": overlaps the one before by 8 bytes", "tensor \"d\": 1 unused bytes before it",
                          "10 bytes after the last tensor"));
}

TEST(GgufTensors, NamesAreUnchanged) {
  const std::string longest(63, 'n');
  GgufBuilder b;
  for (const auto& name :
       {std::string("../../x"), std::string("a/b"), std::string(), std::string("\xFF\0", 2), longest, longest + "n"})
    b.tensor(name, {1}, 24, "x");
  const Model model = read_well(b.tensor("five", {1, 1, 1, 1, 1}, 24, "x").build());
  EXPECT_EQ(model.tensors[0].name, "../../x");
  EXPECT_EQ(model.tensors[3].name, std::string("\xFF\0", 2));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("a name of 64 bytes, ggml accepts 63"),
                                          "tensor \"five\": 5 dimensions, ggml accepts 4"));
}

TEST(GgufTensors, DuplicateTensorNamesAreKeptWithWarning) {
  const Model model =
      read_well(GgufBuilder().tensor("w", {1}, 24, "1").tensor("v", {1}, 24, "v").tensor("w", {1}, 24, "2").build());
  EXPECT_THAT(listing(model), ElementsAre("w int8 I8 [1] 1", "v int8 I8 [1] v", "w int8 I8 [1] 2"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"w\": duplicate name"));
}

TEST(GgufTensors, WarningsAreBounded) {
  GgufBuilder b;
  for (int i = 0; i < 500; ++i) b.list(std::to_string(i), {1}, 24, uint64_t{1} << 40);
  const Model model = read_well(b.build());
  ASSERT_EQ(model.warnings.size(), kMaxWarnings + 1);
  EXPECT_EQ(model.warnings.back(), "... and 400 more");
}

}  // namespace
}  // namespace weightfs::tensors_test
