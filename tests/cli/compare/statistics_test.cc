// Figures about the numbers of a tensor.
#include "cli/compare/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/numbers.h"

namespace weightfs::compare::statistics_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMost = std::numeric_limits<double>::max();

Statistics statistics_of_tensor(const Tensor& tensor, size_t threads = 1) {
  return statistics_of(Numbers::of(tensor).value(), threads, [](uint64_t) {}).value();
}

template <class Number>
Statistics of(const char* dtype, const std::vector<Number>& values) {
  return statistics_of_tensor(test::tensor_of("t", dtype_named(dtype), values));
}

Statistics of(const std::vector<double>& values) { return of("float64", values); }

TEST(Statistics, AreThoseOfTheNumbers) {
  const Statistics found = of({2, 4, 4, 4, 5, 5, 7, 9, 0, 0});
  EXPECT_EQ(found.count, 10u);
  EXPECT_EQ(found.zeros, 2u);
  EXPECT_EQ(found.finite->min, 0);
  EXPECT_EQ(found.finite->max, 9);
  EXPECT_DOUBLE_EQ(found.finite->mean, 4);
  EXPECT_DOUBLE_EQ(found.finite->std, std::sqrt(7.2)) << "of the population, not of a sample";
}

TEST(Statistics, NanAndInfinitiesAreOnlyCounted) {
  const Statistics found = of({kNan, 1, kInfinity, -kInfinity, 3, kNan, kNan});
  EXPECT_EQ(found.nan, 3u);
  EXPECT_EQ(found.inf, 2u);
  EXPECT_EQ(found.finite->min, 1);
  EXPECT_EQ(found.finite->max, 3);
  EXPECT_EQ(found.finite->mean, 2);
  EXPECT_EQ(found.finite->std, 1);
  EXPECT_EQ(std::accumulate(found.finite->histogram.begin(), found.finite->histogram.end(), uint64_t{0}), 2u);
}

TEST(Statistics, WithoutFiniteNumbersThereAreOnlyCounts) {
  EXPECT_FALSE(of({kNan, kInfinity}).finite);
  EXPECT_EQ(of({kNan, kInfinity}).count, 2u);
  EXPECT_FALSE(of(std::vector<double>()).finite);
}

TEST(Statistics, HistogramHasIntervalsOfEqualWidth) {
  std::vector<double> values;
  for (int i = 0; i <= 160; ++i) values.push_back(i);
  std::array<uint64_t, Statistics::kBins> expected{};
  expected.fill(10);
  expected.back() = 11;  // the maximum belongs to the last one
  EXPECT_EQ(of(values).finite->histogram, expected);
}

TEST(Statistics, HistogramOfOneValueHasOneInterval) {
  const Statistics found = of({5, 5, 5});
  EXPECT_EQ(found.finite->histogram[0], 3u);
  EXPECT_EQ(found.finite->std, 0);
}

TEST(Statistics, ExtremeNumbersHaveAHistogram) {
  const Statistics found = of({-kMost, kMost});
  EXPECT_EQ(found.finite->histogram.front(), 1u);
  EXPECT_EQ(found.finite->histogram.back(), 1u);
  const Statistics least = of({0, std::numeric_limits<double>::denorm_min()});
  EXPECT_EQ(std::accumulate(least.finite->histogram.begin(), least.finite->histogram.end(), uint64_t{0}), 2u);
}

TEST(Statistics, ErrorsOfSumsDoNotAddUp) {
  EXPECT_NEAR(of(std::vector<double>(3'000'001, 0.1)).finite->mean, 0.1, 1e-13);  // a plain sum is off by 1e-11
  const std::vector<double> shifted = {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16};
  EXPECT_DOUBLE_EQ(of(shifted).finite->std, std::sqrt(22.5));
}

TEST(Statistics, IntegersAreExact) {
  const int64_t large = (int64_t{1} << 53) - 1;
  EXPECT_EQ(of<int64_t>("int64", {large, -large}).finite->max, static_cast<double>(large));
  EXPECT_EQ(of<int32_t>("int32", {16'777'217, 0}).finite->max, 16'777'217) << "not a float32";
  EXPECT_EQ(of<uint32_t>("uint32", {UINT32_MAX}).finite->max, 4294967295.0);
  EXPECT_EQ(of<uint64_t>("uint64", {uint64_t{1} << 63}).finite->max, 9223372036854775808.0);
}

TEST(Statistics, BigEndianNumbersAreRead) {
  const Tensor tensor =
      test::tensor_of<uint64_t>("t", big_endian(dtype_named("float64")), {__builtin_bswap64(0x3FF8000000000000)});
  EXPECT_EQ(statistics_of_tensor(tensor).finite->max, 1.5);
}

TEST(Statistics, OfLargeTensorsDoNotDependOnTheThreads) {
  std::vector<float> values(static_cast<size_t>(Numbers::kMinChunk) * 2 + 77);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 4096) * 0.01F;
  const Tensor tensor = test::float32_tensor("t", values);
  const Statistics one = statistics_of_tensor(tensor, 1);
  const Statistics four = statistics_of_tensor(tensor, 4);
  EXPECT_EQ(one.zeros, values.size() / 4096 + 1);
  EXPECT_EQ(one.finite->mean, four.finite->mean);
  EXPECT_EQ(one.finite->std, four.finite->std);
  EXPECT_EQ(one.finite->histogram, four.finite->histogram);
}

TEST(Statistics, TypesWithoutNumbersAreRefused) {
  EXPECT_EQ(Numbers::of(make_tensor("t", "complex64", {2})).error().message, "type complex64 has no numbers");
  Tensor refused = make_tensor("t", "float32", {2});
  refused.source = Slice();
  EXPECT_EQ(Numbers::of(refused).error().code, Code::corrupt);
}

TEST(Statistics, NumberOfChunksIsBounded) {
  Tensor tensor = make_tensor("t", "float32", {1});
  const uint64_t size = uint64_t{1} << 60;
  tensor.shape = {size / 4};
  tensor.source = slice(std::make_shared<test::UnreadableSource>(size), 0, size).value();
  EXPECT_LE(Numbers::of(tensor)->chunks(), Numbers::kMaxChunks);
  EXPECT_EQ(statistics_of(*Numbers::of(tensor), 2, [](uint64_t) {}).error().message, "disk error");
}

}  // namespace
}  // namespace weightfs::compare::statistics_test
