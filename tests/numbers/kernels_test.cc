// The vector code against plain loops.
#include "numbers/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace weightfs::numbers::kernels_test {
namespace {

template <class T>
std::vector<T> numbers(size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::uniform_int_distribution<int> value(-1000, 1000);
  std::vector<T> out(count);
  for (T& number : out) number = static_cast<T>(value(random) / 8);  // sums of these are exact
  return out;
}

template <class T>
class Kernels : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Kernels, Types);

TYPED_TEST(Kernels, SumsAreThoseOfPlainLoopsForEverySize) {
  for (size_t size = 1; size < 100; ++size) {
    const auto values = numbers<TypeParam>(size);
    double sum = 0, magnitude = 0;
    for (const TypeParam value : values) sum += value, magnitude += std::abs(value);
    const BlockSums found = sums_of(std::span<const TypeParam>(values));
    EXPECT_EQ(found.sum, sum) << size;
    EXPECT_EQ(found.magnitude, magnitude) << size;
    EXPECT_EQ(found.min, *std::ranges::min_element(values)) << size;
    EXPECT_EQ(found.max, *std::ranges::max_element(values)) << size;
    EXPECT_EQ(found.zeros, static_cast<uint64_t>(std::ranges::count(values, TypeParam{0}))) << size;
  }
}

TYPED_TEST(Kernels, PowersAreThoseOfPlainLoopsForEverySize) {
  for (size_t size = 1; size < 100; ++size) {
    const auto values = numbers<TypeParam>(size);
    double second = 0, third = 0, fourth = 0;
    for (const TypeParam value : values) {
      const double distance = value - 2.0;
      second += distance * distance, third += distance * distance * distance, fourth += std::pow(distance, 4);
    }
    const BlockPowers found = powers_of(std::span<const TypeParam>(values), 2);
    EXPECT_EQ(found.second, second) << size;
    EXPECT_EQ(found.third, third) << size;
    EXPECT_EQ(found.fourth, fourth) << size;
  }
}

TYPED_TEST(Kernels, PairsAreThoseOfPlainLoopsForEverySize) {
  for (size_t size = 1; size < 100; ++size) {
    const auto a = numbers<TypeParam>(size), b = numbers<TypeParam>(size + 100);
    PairSums expected;
    for (size_t i = 0; i < size; ++i) {
      const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
      expected.absolute += difference, expected.square += difference * difference;
      expected.product += a[i] * b[i], expected.square_a += a[i] * a[i], expected.square_b += b[i] * b[i];
      expected.max = std::max(expected.max, difference);
      expected.differing += a[i] == b[i] ? 0 : 1;
    }
    const PairSums found = pair_sums_of(std::span<const TypeParam>(a), std::span<const TypeParam>(b).first(size));
    EXPECT_EQ(found.absolute, expected.absolute) << size;
    EXPECT_EQ(found.square, expected.square) << size;
    EXPECT_EQ(found.product, expected.product) << size;
    EXPECT_EQ(found.square_a, expected.square_a) << size;
    EXPECT_EQ(found.square_b, expected.square_b) << size;
    EXPECT_EQ(found.max, expected.max) << size;
    EXPECT_EQ(found.differing, expected.differing) << size;
  }
}

TYPED_TEST(Kernels, EveryPlaceOfASpecialNumberIsFound) {
  for (size_t size = 1; size < 40; ++size) {
    for (size_t place = 0; place < size; ++place) {
      std::vector<TypeParam> values(size, 1);
      values[place] = static_cast<TypeParam>(place % 2 == 0 ? NAN : -INFINITY);
      EXPECT_EQ(count_not_finite(std::span<const TypeParam>(values)), 1u) << place << " of " << size;
    }
  }
}

TYPED_TEST(Kernels, ColumnsAreAddedOneByOne) {
  const std::vector<TypeParam> values = {1, -2, 3};
  std::vector<double> squares(3, 1), most(3, 1.5);
  add_columns(std::span<const TypeParam>(values), squares.data(), most.data());
  EXPECT_EQ(squares, (std::vector<double>{2, 5, 10}));
  EXPECT_EQ(most, (std::vector<double>{1.5, 2, 3}));
}

}  // namespace
}  // namespace weightfs::numbers::kernels_test
