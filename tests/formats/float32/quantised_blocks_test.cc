#include "tests/builders/quantised_blocks.h"

#include <gtest/gtest.h>

#include "formats/float32.h"

namespace weightfs::quantised_blocks_test {
namespace {

std::vector<float> values_of(const DType* dtype, uint64_t elements, std::string bytes) {
  const SourcePtr source = float32_values(tensor_of(dtype, elements, std::move(bytes)));
  std::vector<float> values(elements);
  EXPECT_EQ(source->size(), elements * sizeof(float));
  EXPECT_TRUE(read_exact(*source, 0, std::as_writable_bytes(std::span(values))));
  return values;
}

// 1 as float16: the scale of a block.
const std::string kOne("\x00\x3C", 2);

// semantics 26.1
TEST(QuantisedBlocks, HaveTheBitsOfGgml) {
  EXPECT_EQ(quantised_samples().size(), 26U);
  for (const QuantisedSample& sample : quantised_samples()) {
    const DType* const dtype = dtype_named(sample.dtype);
    ASSERT_TRUE(has_float32(*dtype)) << sample.dtype;
    const auto source = float32_values(tensor_of(dtype, kSampleBlocks * dtype->block, quantised_blocks(sample)));
    EXPECT_EQ(sha256(*source).value().hex(), sample.digest) << sample.dtype;
  }
}

TEST(QuantisedBlocks, NegativeScaleMakesNegativeZeros) {
  const auto values = values_of(dtype_named("q4_0"), 32, std::string("\x00\xBC", 2) + std::string(16, '\x88'));
  for (const float value : values) EXPECT_EQ(std::bit_cast<uint32_t>(value), 0x80000000U);
}

TEST(QuantisedBlocks, LowHalvesOfBytesAreFirstElements) {
  const auto values = values_of(dtype_named("q4_0"), 32, kOne + '\x9A' + std::string(15, '\x88'));
  EXPECT_EQ(values[0], 2);
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[16], 1);
}

// gguf_convert_endian.py of llama.cpp reverses the float16 numbers of these types, and refuses the others.
TEST(QuantisedBlocks, BigEndianScalesAreReversed) {
  const std::vector<std::pair<std::string_view, std::vector<size_t>>> numbers = {
      {"q4_0", {0}}, {"q8_0", {0}}, {"q4_k", {0, 2}}, {"q6_k", {208}}, {"mxfp4", {}}};
  for (const QuantisedSample& sample : quantised_samples()) {
    const DType* const dtype = dtype_named(sample.dtype);
    const DType* const big = big_endian(dtype);
    const auto row =
        std::find_if(numbers.begin(), numbers.end(), [&](const auto& n) { return n.first == dtype->name; });
    EXPECT_EQ(has_float32(*big), row != numbers.end() || dtype->name == "nvfp4") << dtype->name;
    if (row == numbers.end()) continue;
    std::string bytes = quantised_blocks(sample);
    for (size_t block = 0; block < bytes.size(); block += dtype->block_bytes)
      for (const size_t offset : row->second) std::swap(bytes[block + offset], bytes[block + offset + 1]);
    const auto source = float32_values(tensor_of(big, kSampleBlocks * dtype->block, std::move(bytes)));
    EXPECT_EQ(sha256(*source).value().hex(), sample.digest) << sample.dtype;
  }
}

TEST(QuantisedBlocks, Mxfp4OfOllamaHasPairsOfNeighbours) {
  std::string block(1, '\x80');  // scale: 2
  for (char i = 0; i < 16; ++i) block += static_cast<char>((i & 7) << 4 | i);
  const auto pairs = values_of(mxfp4_of_pairs(), 32, block);
  const auto halves = values_of(dtype_named("mxfp4"), 32, block);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(pairs[2 * i], halves[i]);
    EXPECT_EQ(pairs[2 * i + 1], halves[16 + i]);
  }
  EXPECT_EQ(halves[7], 12);
  EXPECT_EQ(halves[15], -12);
  EXPECT_EQ(halves[31], 12);
}

// ggml does not convert them: q8_1 is for dot products, the others were removed.
TEST(QuantisedBlocks, TypesThatGgmlDoesNotConvertHaveNoValues) {
  for (const char* name : {"q8_1", "q4_0_4_4", "q4_0_4_8", "q4_0_8_8", "iq4_nl_4_4", "iq4_nl_4_8", "iq4_nl_8_8"})
    EXPECT_FALSE(has_float32(*dtype_named(name))) << name;
}

}  // namespace
}  // namespace weightfs::quantised_blocks_test
