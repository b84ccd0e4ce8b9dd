// Figures about the numbers of a tensor.
#include "numbers/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "tests/support/counted_source.h"
#include "tests/support/numbers.h"

namespace weightfs::numbers::statistics_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMost = std::numeric_limits<double>::max();

Statistics statistics_of_tensor(const Tensor& tensor, const StatisticsOptions& options = {}) {
  return figures_of(Elements::of(tensor).value(), tensor.shape, options, [](uint64_t) {}).value().statistics;
}

template <class Number>
Statistics of(const char* dtype, const std::vector<Number>& values) {
  return statistics_of_tensor(test::tensor_of("t", dtype_named(dtype), values));
}

Statistics of(const std::vector<double>& values) { return of("float64", values); }

uint64_t total(const std::vector<uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

// The quantiles as NumPy computes them: an independent formula on sorted numbers.
std::vector<double> sorted_quantiles(std::vector<double> values) {
  std::ranges::sort(values);
  std::vector<double> out;
  for (const double quantile : kQuantiles) {
    const double place = quantile * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const double a = values[below], b = values[std::min(below + 1, values.size() - 1)];
    const double part = place - static_cast<double>(below);
    out.push_back(part >= 0.5 ? b - (b - a) * (1 - part) : a + (b - a) * part);
  }
  return out;
}

template <class Number>
std::vector<Number> normal_numbers(size_t count, double scale) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0.1 * scale, scale);
  std::vector<Number> values(count);
  for (Number& value : values) value = static_cast<Number>(normal(random));
  return values;
}

TEST(Statistics, AreThoseOfTheNumbers) {
  const Statistics found = of({2, 4, 4, 4, 5, 5, 7, 9, 0, 0});
  EXPECT_EQ(found.count, 10u);
  EXPECT_EQ(found.zeros, 2u);
  EXPECT_EQ(found.finite->moments.min(), 0);
  EXPECT_EQ(found.finite->moments.max(), 9);
  EXPECT_DOUBLE_EQ(found.finite->moments.mean(), 4);
  EXPECT_DOUBLE_EQ(found.finite->moments.std(), std::sqrt(7.2)) << "of the population, not of a sample";
  EXPECT_DOUBLE_EQ(found.finite->moments.l1(), 40);
  EXPECT_DOUBLE_EQ(found.finite->moments.l2(), std::sqrt(232.0));
  EXPECT_DOUBLE_EQ(found.finite->moments.rms(), std::sqrt(23.2));
}

TEST(Statistics, NanAndInfinitiesAreOnlyCounted) {
  const Statistics found = of({kNan, 1, kInfinity, -kInfinity, 3, kNan, kNan});
  EXPECT_EQ(found.nan, 3u);
  EXPECT_EQ(found.inf, 2u);
  EXPECT_EQ(found.finite->moments.min(), 1);
  EXPECT_EQ(found.finite->moments.max(), 3);
  EXPECT_EQ(found.finite->moments.mean(), 2);
  EXPECT_EQ(found.finite->moments.std(), 1);
  EXPECT_EQ(total(found.finite->histogram), 2u);
}

// Special numbers of 16-bit types are counted by their patterns.
TEST(Statistics, SpecialNumbersOfNarrowTypesAreCounted) {
  const Statistics half = of<uint16_t>("float16", {0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x3C00, 0x8000, 0});
  EXPECT_EQ(half.inf, 2u);
  EXPECT_EQ(half.nan, 2u);
  EXPECT_EQ(half.zeros, 2u);
  EXPECT_EQ(half.finite->distinct, 2u) << "0 and -0 are equal";
  EXPECT_EQ(half.finite->moments.max(), 1);
  const Statistics brain = of<uint16_t>("bfloat16", {0x7F80, 0xFF80, 0x7FC0, 0x3F80, 0x8000});
  EXPECT_EQ(brain.inf, 2u);
  EXPECT_EQ(brain.nan, 1u);
  EXPECT_EQ(brain.zeros, 1u);
  const Statistics float8 = of<uint8_t>("float8_e5m2", {0x7C, 0x7F, 0x3C, 0x80});
  EXPECT_EQ(float8.inf, 1u);
  EXPECT_EQ(float8.nan, 1u);
  EXPECT_EQ(float8.finite->moments.max(), 1);
}

TEST(Statistics, WithoutFiniteNumbersThereAreOnlyCounts) {
  EXPECT_FALSE(of({kNan, kInfinity}).finite);
  EXPECT_EQ(of({kNan, kInfinity}).count, 2u);
  EXPECT_FALSE(of(std::vector<double>()).finite);
}

TEST(Statistics, HistogramHasIntervalsOfEqualWidth) {
  std::vector<double> values;
  for (int i = 0; i <= 640; ++i) values.push_back(i);
  std::vector<uint64_t> expected(FiniteStatistics::kIntervals, 10);
  expected.back() = 11;  // the maximum belongs to the last one
  EXPECT_EQ(of(values).finite->histogram, expected);
}

TEST(Statistics, HistogramOfOneValueHasOneInterval) {
  const Statistics found = of({5, 5, 5});
  EXPECT_EQ(found.finite->histogram[0], 3u);
  EXPECT_EQ(found.finite->moments.std(), 0);
  EXPECT_FALSE(found.finite->moments.skewness());
}

TEST(Statistics, ExtremeNumbersHaveAHistogram) {
  const Statistics found = of({-kMost, kMost});
  EXPECT_EQ(found.finite->histogram.front(), 1u);
  EXPECT_EQ(found.finite->histogram.back(), 1u);
  EXPECT_EQ(total(of({0, std::numeric_limits<double>::denorm_min()}).finite->histogram), 2u);
}

TEST(Statistics, ErrorsOfSumsDoNotAddUp) {
  EXPECT_NEAR(of(std::vector<double>(3'000'001, 0.1)).finite->moments.mean(), 0.1,
              1e-13);  // a plain sum is off by 1e-11
  const std::vector<double> shifted = {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16};
  EXPECT_DOUBLE_EQ(of(shifted).finite->moments.std(), std::sqrt(22.5));
}

TEST(Statistics, IntegersAreExact) {
  const int64_t large = (int64_t{1} << 53) - 1;
  EXPECT_EQ(of<int64_t>("int64", {large, -large}).finite->moments.max(), static_cast<double>(large));
  EXPECT_EQ(of<int32_t>("int32", {16'777'217, 0}).finite->moments.max(), 16'777'217) << "not a float32";
  EXPECT_EQ(of<uint32_t>("uint32", {UINT32_MAX}).finite->moments.max(), 4294967295.0);
  EXPECT_EQ(of<uint64_t>("uint64", {uint64_t{1} << 63}).finite->moments.max(), 9223372036854775808.0);
  EXPECT_EQ(of<int16_t>("int16", {INT16_MIN, 5}).finite->moments.min(), -32768);
  EXPECT_EQ(of<uint16_t>("uint16", {UINT16_MAX, 5}).finite->moments.max(), 65535);
  EXPECT_EQ(of<int16_t>("int16", {INT16_MIN, 5}).zeros, 0u) << "0x8000 is no -0";
}

TEST(Statistics, BigEndianNumbersAreRead) {
  const auto max = [](const char* dtype, const auto& values) {
    return statistics_of_tensor(test::tensor_of("t", big_endian(dtype_named(dtype)), values)).finite->moments.max();
  };
  EXPECT_EQ(max("float64", std::vector<uint64_t>{__builtin_bswap64(0x3FF8000000000000)}), 1.5);
  EXPECT_EQ(max("float16", std::vector<uint16_t>{__builtin_bswap16(0x3E00)}), 1.5);
  EXPECT_EQ(max("bfloat16", std::vector<uint16_t>{__builtin_bswap16(0x3FC0)}), 1.5);
  EXPECT_EQ(max("int16", std::vector<uint16_t>{__builtin_bswap16(258)}), 258);
  EXPECT_EQ(max("float32", std::vector<uint32_t>{__builtin_bswap32(0x3FC00000)}), 1.5);
}

TEST(Statistics, QuantilesOfSmallTensorsAreExact) {
  for (const size_t size : {1u, 2u, 3u, 100u, 5000u}) {
    const auto floats = normal_numbers<float>(size, 3);
    const Statistics found = of("float32", floats);
    EXPECT_TRUE(found.finite->is_exact);
    EXPECT_EQ(found.finite->quantiles, sorted_quantiles({floats.begin(), floats.end()})) << size;
    const auto doubles = normal_numbers<double>(size, 1e-3);
    EXPECT_EQ(of(doubles).finite->quantiles, sorted_quantiles(doubles)) << size;
    const auto integers = normal_numbers<int32_t>(size, 1e6);
    EXPECT_EQ(of("int32", integers).finite->quantiles, sorted_quantiles({integers.begin(), integers.end()})) << size;
    const auto shorts = normal_numbers<int16_t>(size, 1000);
    EXPECT_EQ(of("int16", shorts).finite->quantiles, sorted_quantiles({shorts.begin(), shorts.end()})) << size;
  }
}

// Without a second pass, quantiles are within the bin: 2^-7 of the number.
TEST(Statistics, QuantilesOfLargeTensorsHaveTheStatedErrorUnlessExact) {
  const auto values = normal_numbers<float>(kSmallTensor + 1000, 0.02);
  const Tensor tensor = test::float32_tensor("t", values);
  const std::vector<double> expected = sorted_quantiles({values.begin(), values.end()});
  const Statistics about = statistics_of_tensor(tensor), exact = statistics_of_tensor(tensor, {.exact = true});
  EXPECT_FALSE(about.finite->is_exact);
  EXPECT_EQ(exact.finite->quantiles, expected);
  for (size_t i = 0; i < kQuantiles.size(); ++i)
    EXPECT_LE(std::abs(about.finite->quantiles[i] - expected[i]), std::abs(expected[i]) / 128) << kQuantiles[i];
  EXPECT_EQ(total(about.finite->histogram), values.size());
}

TEST(Statistics, ZerosOfBothSignsAndEqualNumbersAreExact) {
  const Statistics found = of({-0.0, 0.0, -0.0, 0.0, 1, 1, 1});
  EXPECT_EQ(found.finite->quantiles[5], 0);
  EXPECT_EQ(found.zeros, 4u);
  EXPECT_EQ(found.finite->near_zero, 4u);
}

TEST(Statistics, DoNotDependOnTheThreads) {
  std::vector<float> values(static_cast<size_t>(Elements::kMinChunk) * 2 + 77);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 4096) * 0.01F;
  const Tensor tensor = test::float32_tensor("t", values);
  const Statistics one = statistics_of_tensor(tensor, {.threads = 1});
  const Statistics four = statistics_of_tensor(tensor, {.threads = 4});
  EXPECT_EQ(one.zeros, values.size() / 4096 + 1);
  EXPECT_EQ(one.finite->moments.mean(), four.finite->moments.mean());
  EXPECT_EQ(one.finite->moments.kurtosis(), four.finite->moments.kurtosis());
  EXPECT_EQ(one.finite->histogram, four.finite->histogram);
  EXPECT_EQ(one.finite->quantiles, four.finite->quantiles);
}

TEST(Statistics, RowsOfZerosAreCountedAcrossChunks) {
  const auto dead_rows = [](uint64_t rows, uint64_t columns, const std::vector<uint64_t>& dead) {
    std::vector<float> values(static_cast<size_t>(rows * columns), 1);
    for (const uint64_t row : dead)
      std::fill_n(values.begin() + static_cast<ptrdiff_t>(row * columns), columns, row % 2 == 0 ? 0.0F : -0.0F);
    Tensor tensor = test::float32_tensor("t", values);
    tensor.shape = {rows, columns};
    const Statistics found = statistics_of_tensor(tensor, {.threads = 3});
    EXPECT_EQ(found.rows, rows);
    return found.dead_rows;
  };
  EXPECT_EQ(dead_rows(3, 5, {}), 0u);
  EXPECT_EQ(dead_rows(3, 5, {0, 2}), 2u);
  EXPECT_EQ(dead_rows(1, 7, {0}), 1u);
  EXPECT_EQ(dead_rows(1000, 3001, {0, 349, 350, 698, 699, 999}), 6u) << "rows 349 and 698 cross two chunks";
  EXPECT_EQ(dead_rows(2, Elements::kMinChunk + 9, {1}), 1u);
  EXPECT_EQ(dead_rows(1, 3 * Elements::kMinChunk, {0}), 1u) << "a row of several chunks";
}

TEST(Statistics, SampleIsMarkedAndReadsFewBytes) {
  std::vector<float> values(4096 * 1024, 2);
  Tensor tensor = test::float32_tensor("t", values);
  tensor.shape = {4096, 1024};
  std::atomic<uint64_t> bytes = 0;
  const StatisticsOptions options{.sample = true};
  const Elements elements = Elements::of(tensor).value();
  const Statistics found =
      figures_of(elements, tensor.shape, options, [&](uint64_t more) { bytes += more; })->statistics;
  EXPECT_TRUE(found.is_sample());
  EXPECT_EQ(found.count, 64u * 1024);
  EXPECT_EQ(found.elements, values.size());
  EXPECT_EQ(bytes, 64u * 1024 * 4);
  EXPECT_EQ(bytes, bytes_to_read(elements, tensor.shape, options));
  EXPECT_EQ(found.finite->moments.mean(), 2);
}

TEST(Statistics, TotalsAreThoseOfAllNumbers) {
  const std::vector<std::vector<float>> parts = {{1, 2, 3}, {-4, 0}, {10, 20, 30, 40}};
  std::vector<float> all;
  Totals totals;
  Counts counts(Form::floats);
  for (const auto& part : parts) {
    const Tensor tensor = test::float32_tensor("t", part);
    const Figures figures = figures_of(Elements::of(tensor).value(), tensor.shape, {}, [](uint64_t) {}).value();
    totals.add(figures.statistics);
    counts.add(figures.distribution);
    all.insert(all.end(), part.begin(), part.end());
  }
  const Distribution distribution = counts.distribution();
  const Statistics sum = totals.statistics(&distribution, 1e-6), whole = of("float32", all);
  EXPECT_EQ(totals.tensors(), 3u);
  EXPECT_EQ(sum.count, whole.count);
  EXPECT_EQ(sum.zeros, 1u);
  EXPECT_DOUBLE_EQ(sum.finite->moments.mean(), whole.finite->moments.mean());
  EXPECT_NEAR(sum.finite->moments.std(), whole.finite->moments.std(), 1e-12);
  EXPECT_NEAR(*sum.finite->moments.skewness(), *whole.finite->moments.skewness(), 1e-12);
  EXPECT_NEAR(*sum.finite->moments.kurtosis(), *whole.finite->moments.kurtosis(), 1e-12);
  EXPECT_NEAR(sum.finite->quantiles[5], whole.finite->quantiles[5], 3.0 / 128);
}

// A model may have a hundred thousand of them: each read costs system calls.
TEST(Statistics, SmallTensorIsReadOnce) {
  Tensor tensor = test::tensor_of("t", dtype_named("float64"), normal_numbers<double>(1000, 1));
  const auto bytes = std::make_shared<test::CountedSource>(read_text(tensor.source, 0, tensor.nbytes()).value());
  tensor.source = slice(bytes, 0, bytes->size()).value();
  const Statistics found = statistics_of_tensor(tensor, {.exact = true});
  EXPECT_TRUE(found.finite->is_exact);
  EXPECT_EQ(bytes->bytes_read, 8000u);
}

TEST(Statistics, TypesWithoutNumbersAreRefused) {
  EXPECT_EQ(Elements::of(make_tensor("t", "complex64", {2})).error().message, "type complex64 has no numbers");
  Tensor refused = make_tensor("t", "float32", {2});
  refused.source = Slice();
  EXPECT_EQ(Elements::of(refused).error().code, Code::corrupt);
}

TEST(Statistics, NumberOfChunksIsBounded) {
  Tensor tensor = make_tensor("t", "float32", {1});
  const uint64_t size = uint64_t{1} << 60;
  tensor.shape = {size / 4};
  tensor.source = slice(std::make_shared<test::UnreadableSource>(size), 0, size).value();
  const Elements elements = Elements::of(tensor).value();
  EXPECT_LE(elements.chunks().size(), Elements::kMaxChunks);
  EXPECT_EQ(figures_of(elements, tensor.shape, {.threads = 2}, [](uint64_t) {}).error().message, "disk error");
}

}  // namespace
}  // namespace weightfs::numbers::statistics_test
