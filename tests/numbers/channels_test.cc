// Channels of a tensor, and the scales of quantised ones.
#include "numbers/channels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "formats/float32.h"
#include "numbers/block_scales.h"
#include "tests/support/numbers.h"

namespace weightfs::numbers::channels_test {
namespace {

std::vector<Channel> channels(const Tensor& tensor, size_t axis) {
  return channels_of(Elements::of(tensor).value(), tensor.shape, axis, 2, [](uint64_t) {}).value();
}

TEST(Channels, EveryAxisHasItsSums) {
  Tensor tensor = test::float32_tensor("t", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  tensor.shape = {2, 3, 2};
  const auto first = channels(tensor, 0), middle = channels(tensor, 1), last = channels(tensor, 2);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_DOUBLE_EQ(first[0].rms, std::sqrt((1 + 4 + 9 + 16 + 25 + 36) / 6.0));
  EXPECT_EQ(first[1].max, 12);
  ASSERT_EQ(middle.size(), 3u);
  EXPECT_DOUBLE_EQ(middle[1].rms, std::sqrt((9 + 16 + 81 + 100) / 4.0));
  ASSERT_EQ(last.size(), 2u);
  EXPECT_DOUBLE_EQ(last[0].rms, std::sqrt((1 + 9 + 25 + 49 + 81 + 121) / 6.0));
  EXPECT_EQ(last[0].max, 11);
}

TEST(Channels, OutliersAreAboveSixTimesTheRmsOfTheTensor) {
  std::vector<float> values(100 * 100, 1);
  for (size_t row = 0; row < 50; ++row) values[row * 100 + 7] = -40;
  Tensor tensor = test::float32_tensor("t", values);
  tensor.shape = {100, 100};
  const auto found = channels(tensor, 1);
  EXPECT_EQ(found[7].outlier_share, 0.5);
  EXPECT_EQ(found[7].max, 40);
  EXPECT_EQ(found[8].outlier_share, 0);
}

TEST(Channels, SpecialNumbersCountAsZero) {
  Tensor tensor = test::float32_tensor("t", {NAN, 3, INFINITY, 4});
  tensor.shape = {2, 2};
  EXPECT_EQ(channels(tensor, 1)[0].max, 0);
  EXPECT_DOUBLE_EQ(channels(tensor, 1)[1].rms, std::sqrt(12.5));
}

TEST(Channels, TooManyAreRefused) {
  Tensor tensor = test::unreadable_tensor("t", {kMaxChannels + 1, 1});
  EXPECT_EQ(channels_of(Elements::of(tensor).value(), tensor.shape, 0, 1, [](uint64_t) {}).error().code,
            Code::unsupported);
}

// A number is a scale times a quant: with all quants 1 (q8_0), the numbers are the scales.
TEST(BlockScales, AreThoseOfTheBlocks) {
  std::string block;
  for (const int scale : {0x3C00, 0x4000, 0x0000}) {
    block += static_cast<char>(scale & 0xFF);
    block += static_cast<char>(scale >> 8);
    block += std::string(32, 1);
  }
  Tensor tensor = make_tensor("t", "q8_0", {3, 32});
  tensor.source = slice(in_memory(block), 0, block.size()).value();
  const auto found = scale_statistics_of(tensor, 1, [](uint64_t) {}).value().value();
  EXPECT_EQ(found.scales.count, 3u);
  EXPECT_EQ(found.scales.zeros, 1u);
  EXPECT_EQ(found.scales.finite->moments.max(), 2);
  EXPECT_FALSE(found.minimums);
  EXPECT_FALSE(scale_statistics_of(test::float32_tensor("f", {1}), 1, [](uint64_t) {}).value());
}

// The numbers of a part are a scale times a whole number, less a minimum (q4_1 and q5_1: plus one).
TEST(BlockScales, NumbersAreScalesTimesQuants) {
  std::mt19937 random(3);
  for (const char* name : {"q2_k", "q3_k", "q4_0", "q4_1", "q4_k", "q5_0", "q5_1", "q5_k", "q6_k", "q8_0", "iq4_nl",
                           "iq4_xs", "q2_0", "tq1_0", "tq2_0", "mxfp4", "nvfp4"}) {
    const DType& dtype = *dtype_named(name);
    const BlockScales& type = *block_scales_of(dtype);
    std::string block(type.block_bytes, '\0');
    for (char& byte : block) byte = static_cast<char>(random() % 0x38);  // no float16 in it is infinite
    Tensor tensor = make_tensor("t", name, {dtype.block});
    tensor.source = slice(in_memory(block), 0, block.size()).value();
    std::vector<float> numbers(dtype.block), scales(type.scales), minimums(std::max<size_t>(type.minimums, 1));
    ASSERT_TRUE(float32_values(tensor)->read(0, std::as_writable_bytes(std::span(numbers))));
    type.read(std::as_bytes(std::span(block)).data(), scales.data(), minimums.data());
    const bool is_added = std::string_view(name).ends_with("_1");
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t part = i * scales.size() / numbers.size();
      const double minimum = type.minimums == 0 ? 0 : is_added ? -minimums[part] : minimums[part];
      const double step =
          std::string_view(name).find("fp4") == std::string_view::npos ? scales[part] : scales[part] / 2;
      if (step == 0) {
        EXPECT_NEAR(numbers[i], -minimum, 1e-6) << name;
        continue;
      }
      const double quant = (static_cast<double>(numbers[i]) + minimum) / step;
      EXPECT_NEAR(quant, std::round(quant), 1e-2) << name << " " << i;
      EXPECT_LE(std::abs(quant), 128) << name << " " << i;
    }
  }
}

TEST(BlockScales, BlockOfZerosHasNoScale) {
  for (const char* name : {"q2_k", "q3_k", "q4_0", "q4_1", "q4_k", "q5_0", "q5_1", "q5_k", "q6_k", "q8_0", "q8_k",
                           "iq4_nl", "iq4_xs", "q1_0", "q2_0", "tq1_0", "tq2_0", "nvfp4"}) {
    const DType* const dtype = dtype_named(name);
    const BlockScales* const type = block_scales_of(*dtype);
    ASSERT_NE(type, nullptr) << name;
    EXPECT_EQ(type->block_bytes, dtype->block_bytes) << name;
    const std::string block(type->block_bytes, '\0');
    std::vector<float> scales(type->scales, 1), minimums(type->minimums, 1);
    type->read(std::as_bytes(std::span(block)).data(), scales.data(), minimums.data());
    EXPECT_EQ(scales, std::vector<float>(type->scales, 0)) << name;
    EXPECT_EQ(minimums, std::vector<float>(type->minimums, 0)) << name;
  }
}

}  // namespace
}  // namespace weightfs::numbers::channels_test
