// What happens to the values of tensors between a repository and a GGUF.
#include <gtest/gtest.h>

#include <cstring>

#include "formats/float32.h"
#include "formats/mapping/operations/joined.h"
#include "formats/mapping/operations/numbers.h"
#include "formats/mapping/operations/rearranged.h"
#include "tests/support/models.h"
#include "tests/support/requested_source.h"

namespace weightfs::operations_test {
namespace {

using namespace mapping;  // NOLINT

const Architecture& llama() { return *architecture_named("llama"); }

Tensor uint8s(Shape shape) { return make_tensor("t", "uint8", std::move(shape)); }

// The tensor, which must have been made.
Tensor well(Result<Tensor> made) {
  EXPECT_TRUE(made) << made.error().message;
  return made.value_or(Tensor{});
}

std::vector<int> values(const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.nbytes());
  EXPECT_TRUE(read_exact(tensor.source, 0, bytes));
  std::vector<int> out;
  for (const std::byte byte : bytes) out.push_back(std::to_integer<int>(byte));
  return out;
}

Tensor floats(Shape shape, const std::vector<float>& numbers) {
  Tensor tensor = float32_tensor("t", numbers);
  tensor.shape = std::move(shape);
  return tensor;
}

std::vector<float> numbers_of(const Tensor& tensor) {
  std::vector<float> out(tensor.nbytes() / sizeof(float));
  EXPECT_TRUE(read_exact(tensor.source, 0, std::as_writable_bytes(std::span(out))));
  return out;
}

// Two heads of four rows: rows 0, 1 are the first halves of pairs, rows 2, 3 the second ones.
TEST(MappingOperations, RowsOfHeadsArePermutedAndRestored) {
  const Tensor stored = uint8s({8, 1});
  const Sizes sizes{.heads = 2, .key_heads = 1};
  const Tensor made = well(rearranged(stored, Op::query_heads, llama(), sizes));
  EXPECT_EQ(values(made), (std::vector{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(values(well(restored(made, Op::query_heads, llama(), sizes))), values(stored));
  EXPECT_EQ(values(well(rearranged(stored, Op::key_heads, llama(), sizes))), (std::vector{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(values(well(rearranged(stored, Op::query_heads, *architecture_named("qwen2"), sizes))), values(stored));
}

TEST(MappingOperations, BiasesArePermutedAsTheirRows) {
  EXPECT_EQ(values(well(rearranged(uint8s({4}), Op::query_heads, llama(), {.heads = 1}))), (std::vector{0, 2, 1, 3}));
}

TEST(MappingOperations, RowsOfQuantisedBlocksArePermutedWhole) {
  const Tensor stored = make_tensor("t", "q8_0", {4, 32});
  const Tensor made = well(rearranged(stored, Op::query_heads, llama(), {.heads = 1}));
  const std::vector<int> before = values(stored), after = values(made);
  EXPECT_TRUE(std::equal(after.begin() + 34, after.begin() + 68, before.begin() + 68));
  EXPECT_EQ(values(well(restored(made, Op::query_heads, llama(), {.heads = 1}))), before);
}

TEST(MappingOperations, RowsThatHeadsDoNotDivideAreRefused) {
  for (const uint64_t heads : {uint64_t{0}, uint64_t{3}, uint64_t{8}, uint64_t{1} << 63U}) {
    const auto made = rearranged(uint8s({8, 2}), Op::query_heads, llama(), {.heads = heads});
    ASSERT_FALSE(made) << heads;
    EXPECT_EQ(made.error().code, Code::unsupported);
  }
}

TEST(MappingOperations, RefusedTensorIsDamage) {
  Tensor refused = uint8s({8, 2});
  refused.source = Slice();
  EXPECT_EQ(rearranged(refused, Op::query_heads, llama(), {.heads = 2}).error().code, Code::corrupt);
}

// Two key heads, four value heads of one row: k0v0 k0v1 k1v0 k1v1 become k0v0 k1v0 k0v1 k1v1.
TEST(MappingOperations, ValueHeadsAreTiled) {
  const Sizes sizes{.linear_key_heads = 2, .linear_value_heads = 4, .linear_key_size = 1, .linear_value_size = 1};
  const Tensor rows = uint8s({4, 1}), behind = uint8s({8, 1}), columns = uint8s({1, 4});
  EXPECT_EQ(values(well(rearranged(rows, Op::value_heads, llama(), sizes))), (std::vector{0, 2, 1, 3}));
  EXPECT_EQ(values(well(rearranged(behind, Op::value_head_rows, llama(), sizes))),
            (std::vector{0, 1, 2, 3, 4, 6, 5, 7}));
  EXPECT_EQ(values(well(rearranged(columns, Op::value_columns, llama(), sizes))), (std::vector{0, 2, 1, 3}));
  for (const auto& [tensor, op] : {std::pair(rows, Op::value_heads), std::pair(behind, Op::value_head_rows),
                                   std::pair(columns, Op::value_columns)})
    EXPECT_EQ(values(well(restored(well(rearranged(tensor, op, llama(), sizes)), op, llama(), sizes))), values(tensor));
}

TEST(MappingOperations, ChannelsOfAConvolutionLoseTheirMiddle) {
  const Sizes sizes{.linear_key_heads = 1, .linear_value_heads = 1, .linear_key_size = 1, .linear_value_size = 2};
  const Tensor made = well(rearranged(uint8s({4, 1, 3}), Op::value_channels, llama(), sizes));
  EXPECT_EQ(made.shape, (Shape{4, 3}));
  EXPECT_EQ(restored(made, Op::value_channels, llama(), sizes)->shape, (Shape{4, 1, 3}));
}

TEST(MappingOperations, FusedRowsAreSplit) {
  const Tensor fused = uint8s({2, 4, 1});
  const Tensor first = well(rearranged(fused, Op::first_half, llama(), {}));
  EXPECT_EQ(first.shape, (Shape{2, 2, 1}));
  EXPECT_EQ(values(first), (std::vector{0, 1, 4, 5}));
  EXPECT_EQ(values(well(rearranged(fused, Op::second_half, llama(), {}))), (std::vector{2, 3, 6, 7}));
  EXPECT_FALSE(rearranged(uint8s({2, 3, 1}), Op::first_half, llama(), {}));
  EXPECT_FALSE(rearranged(uint8s({4, 1}), Op::first_half, llama(), {}));
}

TEST(MappingOperations, AlternatingPartsAreTakenApartAndJoined) {
  const Tensor biases = uint8s({2, 4});
  const Tensor even = well(rearranged(biases, Op::even, llama(), {}));
  const Tensor odd = well(rearranged(biases, Op::odd, llama(), {}));
  EXPECT_EQ(values(even), (std::vector{0, 2, 4, 6}));
  EXPECT_EQ(values(odd), (std::vector{1, 3, 5, 7}));
  EXPECT_EQ(values(well(alternating(even, odd))), values(biases));
  const Tensor weights = uint8s({1, 3, 4});
  const Tensor gate = well(rearranged(weights, Op::transposed_even, llama(), {}));
  const Tensor up = well(rearranged(weights, Op::transposed_odd, llama(), {}));
  EXPECT_EQ(gate.shape, (Shape{1, 2, 3}));
  EXPECT_EQ(values(gate), (std::vector{0, 4, 8, 2, 6, 10}));
  EXPECT_EQ(values(well(alternating_transposed(gate, up))), values(weights));
  EXPECT_EQ(values(well(transposed_again(well(rearranged(weights, Op::transposed, llama(), {}))))), values(weights));
}

// One head of two rows of keys and one of values, of rank three.
TEST(MappingOperations, LatentKeysAndValuesAreTakenApartAndJoined) {
  const Tensor both = uint8s({3, 3});
  const Sizes sizes{.key_heads = 1, .mla_keys = 2, .mla_values = 1};
  const Tensor keys = well(rearranged(both, Op::mla_keys, llama(), sizes));
  EXPECT_EQ(keys.shape, (Shape{1, 3, 2}));
  EXPECT_EQ(values(keys), (std::vector{0, 3, 1, 4, 2, 5}));
  const Tensor rest = well(rearranged(both, Op::mla_values, llama(), sizes));
  EXPECT_EQ(values(rest), (std::vector{6, 7, 8}));
  EXPECT_EQ(values(well(joined_mla(keys, rest))), values(both));
  EXPECT_FALSE(
      rearranged(both, Op::mla_keys, llama(), {.key_heads = uint64_t{1} << 63U, .mla_keys = 2, .mla_values = 2}));
}

TEST(MappingOperations, StackedExpertsHaveOneShapeAndType) {
  const Tensor made = well(stacked({uint8s({2, 2}), uint8s({2, 2})}));
  EXPECT_EQ(made.shape, (Shape{2, 2, 2}));
  EXPECT_EQ(values(made), (std::vector{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_FALSE(stacked({uint8s({2, 2}), uint8s({2, 3})}));
  EXPECT_FALSE(stacked({uint8s({2, 2}), make_tensor("t", "int8", {2, 2})}));
}

TEST(MappingOperations, BlocksOfMxfp4AreRepackedAndRestored) {
  const Tensor blocks = make_tensor("t", "uint8", {1, 4, 2, 16}), scales = make_tensor("s", "uint8", {1, 4, 2});
  const Tensor gate = well(mxfp4_of(blocks, scales, 0, 2)), up = well(mxfp4_of(blocks, scales, 1, 2));
  EXPECT_EQ(gate.shape, (Shape{1, 2, 64}));
  // The scale 0; then the elements 0 and 16, of the bytes 0 and 8: 0x00 and 0x08.
  EXPECT_EQ(values(gate)[0], 0);
  EXPECT_EQ(values(gate)[1], 0x80);
  EXPECT_EQ(values(well(mxfp4_part({gate, up}, Mxfp4Part::blocks))), values(blocks));
  EXPECT_EQ(values(well(mxfp4_part({gate, up}, Mxfp4Part::scales))), values(scales));
  for (size_t at = 0; at < gate.nbytes(); ++at) {  // single bytes, across blocks and rows
    std::byte one{};
    ASSERT_TRUE(read_exact(gate.source, at, std::span(&one, 1)));
    EXPECT_EQ(std::to_integer<int>(one), values(gate)[at]);
  }
  EXPECT_FALSE(mxfp4_of(blocks, make_tensor("s", "uint8", {1, 4, 1}), 0, 1));
  EXPECT_FALSE(mxfp4_of(make_tensor("t", "uint8", {1, 3, 2, 16}), make_tensor("s", "uint8", {1, 3, 2}), 0, 2));
}

// Rows of two groups: 32 bytes of blocks and 2 scales.
TEST(MappingOperations, PrefetchOfMxfp4RequestsItsRows) {
  using Ranges = test::RequestedSource::Ranges;
  const auto blocks = std::make_shared<test::RequestedSource>(std::string(6 * 32, 'b'));
  const auto scales = std::make_shared<test::RequestedSource>(std::string(6 * 2, 's'));
  Tensor stored = make_tensor("t", "uint8", {1, 6, 2, 16}), of_scales = make_tensor("s", "uint8", {1, 6, 2});
  stored.source = slice(blocks, 0, blocks->size()).value();
  of_scales.source = slice(scales, 0, scales->size()).value();
  const Tensor up = well(mxfp4_of(stored, of_scales, 1, 2));
  ASSERT_TRUE(up.source.prefetch({35, 36}));  // of the second row, which is the fourth stored one
  EXPECT_EQ(blocks->prefetched, (Ranges{{3 * 32, 4 * 32}}));
  EXPECT_EQ(scales->prefetched, (Ranges{{3 * 2, 4 * 2}}));
  std::byte one{};
  ASSERT_TRUE(up.source.read_ahead(0, std::span(&one, 1), {0, up.source.size()}));
  EXPECT_EQ(std::pair(blocks->expected.from, blocks->expected.to), (std::pair<uint64_t, uint64_t>{32, 6 * 32}));
  blocks->cached_end = blocks->size();
  EXPECT_LT(up.source.cached({0, up.source.size()}).value().now, up.source.size());
  scales->cached_end = scales->size();
  EXPECT_EQ(up.source.cached({0, up.source.size()}).value().now, up.source.size());

  const auto gguf = std::make_shared<test::RequestedSource>(std::string(up.nbytes(), 'g'));
  Tensor half = up;
  half.source = slice(gguf, 0, gguf->size()).value();
  const Tensor restored = well(mxfp4_part({half, half}, Mxfp4Part::blocks));
  ASSERT_TRUE(restored.source.prefetch({64, 128}));  // the second row of both
  EXPECT_EQ(gguf->prefetched, (Ranges{{34, 68}, {34, 68}}));
}

TEST(MappingOperations, ArithmeticIsOfFloat32) {
  const Tensor norm = floats({3}, {0, 0.5F, -1});
  const Tensor made = well(with_numbers(norm, Arithmetic::plus_one, GgufType::float32));
  EXPECT_EQ(numbers_of(made), (std::vector<float>{1, 1.5F, 0}));
  EXPECT_EQ(numbers_of(well(with_numbers(made, Arithmetic::minus_one, GgufType::float32))), numbers_of(norm));
  EXPECT_EQ(numbers_of(well(with_numbers(norm, Arithmetic::decay, GgufType::float32)))[0], -1);
}

TEST(MappingOperations, NumbersAreTheBytesIfNothingChanges) {
  const Tensor tensor = make_tensor("t", "bfloat16", {4, 4});
  const Tensor made = well(with_numbers(tensor, Arithmetic::none, GgufType::bfloat16));
  EXPECT_EQ(made.source.whole(), tensor.source.whole());
}

// Halves are rounded away from zero; the scale is the largest magnitude divided by 127, as float16.
TEST(MappingOperations, BlocksOfQ8AreThoseOfGgml) {
  std::vector<float> numbers(32, 0);
  numbers[0] = 127;
  numbers[1] = 2.5F;
  numbers[2] = -2.5F;
  numbers[3] = 0.49999997F;
  const Tensor made = well(with_numbers(floats({1, 32}, numbers), Arithmetic::none, GgufType::q8_0));
  ASSERT_EQ(made.nbytes(), 34U);
  const std::vector<int> bytes = values(made);
  EXPECT_EQ(bytes[0] | bytes[1] << 8, 0x3C00);  // 1
  EXPECT_EQ(bytes[2], 127);
  EXPECT_EQ(bytes[3], 3);
  EXPECT_EQ(bytes[4], 0xFD);
  EXPECT_EQ(bytes[5], 0);
  const Tensor zeros = well(with_numbers(floats({1, 32}, std::vector<float>(32)), Arithmetic::none, GgufType::q8_0));
  EXPECT_EQ(values(zeros), std::vector<int>(34, 0));
}

TEST(MappingOperations, EncodedNumbersAreReadFromAnyByte) {
  std::vector<float> numbers(96);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i) - 40;
  for (const GgufType type : {GgufType::float16, GgufType::bfloat16, GgufType::q8_0}) {
    const Tensor made = well(with_numbers(floats({3, 32}, numbers), Arithmetic::none, type));
    const std::vector<int> whole = values(made);
    for (size_t at = 0; at < whole.size(); ++at) {
      std::vector<std::byte> two(std::min<size_t>(2, whole.size() - at));
      ASSERT_TRUE(read_exact(made.source, at, two));
      EXPECT_EQ(std::to_integer<int>(two.front()), whole[at]);
    }
    EXPECT_EQ(*made.source.read(whole.size(), std::span<std::byte>()), 0U);
  }
}

TEST(MappingOperations, TensorsWithoutNumbersAreRefused) {
  const auto made = with_numbers(make_tensor("t", "complex64", {2, 2}), Arithmetic::none, GgufType::float16);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::unsupported);
}

}  // namespace
}  // namespace weightfs::operations_test
