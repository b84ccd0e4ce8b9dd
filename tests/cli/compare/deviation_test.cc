// How far the numbers of two tensors are apart.
#include "cli/compare/deviation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/support/numbers.h"

namespace weightfs::compare::deviation_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Deviation between(const std::vector<double>& a, const std::vector<double>& b) {
  Deviation out;
  out.add(a, b);
  return out;
}

TEST(Deviation, OfEqualNumbersIsZero) {
  const Deviation same = between({1, -2, 0.5}, {1, -2, 0.5});
  EXPECT_EQ(same.count(), 3u);
  EXPECT_EQ(same.differing(), 0u);
  EXPECT_EQ(same.max(), 0);
  EXPECT_EQ(same.mean(), 0);
  EXPECT_DOUBLE_EQ(same.cosine().value(), 1);
}

TEST(Deviation, HasTheMaximumAndTheMean) {
  const Deviation found = between({1, 2, 3, 4}, {1, 2.5, 3, 2});
  EXPECT_EQ(found.differing(), 2u);
  EXPECT_EQ(found.max(), 2);
  EXPECT_EQ(found.mean(), 0.625);
}

TEST(Deviation, CosineIsThatOfTheVectors) {
  EXPECT_DOUBLE_EQ(between({1, 0}, {0, 1}).cosine().value(), 0);
  EXPECT_DOUBLE_EQ(between({1, 2}, {-2, -4}).cosine().value(), -1);
  EXPECT_DOUBLE_EQ(between({3, 0}, {3, 4}).cosine().value(), 0.6);
  EXPECT_FALSE(between({0, 0}, {1, 2}).cosine()) << "a zero vector has no direction";
  EXPECT_FALSE(between({kInfinity, 0}, {1, 2}).cosine());
  EXPECT_FALSE(between({}, {}).cosine());
}

TEST(Deviation, PairsWithNanAreCountedAndLeftOut) {
  const Deviation found = between({kNan, kNan, 1, 3}, {kNan, 1, kNan, 1});
  EXPECT_EQ(found.nan(), 3u);
  EXPECT_EQ(found.differing(), 3u) << "two NaNs are equal";
  EXPECT_EQ(found.max(), 2);
  EXPECT_EQ(found.mean(), 2);
  EXPECT_DOUBLE_EQ(found.cosine().value(), 1);
  EXPECT_FALSE(between({kNan}, {kNan}).mean());
}

TEST(Deviation, EqualInfinitiesDoNotDiffer) {
  const Deviation same = between({kInfinity, -kInfinity}, {kInfinity, -kInfinity});
  EXPECT_EQ(same.differing(), 0u);
  EXPECT_EQ(same.max(), 0);
  EXPECT_EQ(between({kInfinity}, {-kInfinity}).max(), kInfinity);
  EXPECT_EQ(between({0.0}, {-0.0}).differing(), 0u);
}

TEST(Deviation, EveryPlaceIsCounted) {
  for (size_t size = 1; size < 40; ++size) {
    for (size_t place = 0; place < size; ++place) {
      std::vector<double> a(size, 1), b(size, 1);
      b[place] = 2;
      const Deviation found = between(a, b);
      EXPECT_EQ(found.differing(), 1u) << place << " of " << size;
      EXPECT_EQ(found.max(), 1) << place << " of " << size;
    }
  }
}

TEST(Deviation, OfLargeTensorsDoesNotDependOnTheThreads) {
  const size_t count = static_cast<size_t>(Numbers::kMinChunk) * 2 + 12345;
  std::vector<float> a(count), b(count);
  for (size_t i = 0; i < count; ++i) {
    a[i] = static_cast<float>(i % 1000) * 0.1F;
    b[i] = i % 100'000 == 7 ? a[i] + 1 : a[i];
  }
  const Numbers of_a = Numbers::of(test::float32_tensor("a", a)).value();
  const Numbers of_b = Numbers::of(test::float32_tensor("b", b)).value();
  EXPECT_EQ(of_a.chunks(), 3u);
  std::atomic<uint64_t> bytes = 0;
  const auto one = deviation_of(of_a, of_b, 1, [&](uint64_t more) { bytes += more; });
  const auto four = deviation_of(of_a, of_b, 4, [](uint64_t) {});
  EXPECT_EQ(bytes, count * 4);
  EXPECT_EQ(one.value().differing(), count / 100'000 + 1);
  EXPECT_EQ(one->mean(), four.value().mean());
  EXPECT_EQ(one->cosine(), four->cosine());
}

TEST(Deviation, ErrorNamesTheSide) {
  const std::vector<float> values(10, 1);
  const Numbers good = Numbers::of(test::float32_tensor("a", values)).value();
  const Numbers bad = Numbers::of(test::unreadable_tensor("b", {10})).value();
  const auto nothing = [](uint64_t) {};
  EXPECT_EQ(deviation_of(good, bad, 2, nothing).error().side, Side::b);
  EXPECT_EQ(deviation_of(bad, good, 2, nothing).error().side, Side::a);
}

}  // namespace
}  // namespace weightfs::compare::deviation_test
