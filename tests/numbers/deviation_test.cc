// How far the numbers of two tensors are apart.
#include "numbers/deviation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/support/numbers.h"

namespace weightfs::numbers::deviation_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Deviation between(const std::vector<double>& a, const std::vector<double>& b) {
  Deviation out;
  out.add(0, std::span<const double>(a), std::span<const double>(b));
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
  const size_t count = static_cast<size_t>(Elements::kMinChunk) * 2 + 12345;
  std::vector<float> a(count), b(count);
  for (size_t i = 0; i < count; ++i) {
    a[i] = static_cast<float>(i % 1000) * 0.1F;
    b[i] = i % 100'000 == 7 ? a[i] + 1 : a[i];
  }
  const Elements of_a = Elements::of(test::float32_tensor("a", a)).value();
  const Elements of_b = Elements::of(test::float32_tensor("b", b)).value();
  EXPECT_EQ(of_a.chunks().size(), 3u);
  std::atomic<uint64_t> bytes = 0;
  const auto one = deviation_of(of_a, of_b, std::nullopt, 1, [&](uint64_t more) { bytes += more; });
  const auto four = deviation_of(of_a, of_b, std::nullopt, 4, [](uint64_t) {});
  EXPECT_EQ(bytes, count * 4);
  EXPECT_EQ(one->deviation.differing(), count / 100'000 + 1);
  EXPECT_EQ(one->deviation.mean(), four->deviation.mean());
  EXPECT_EQ(one->deviation.cosine(), four->deviation.cosine());
}

TEST(Deviation, ErrorIsRelativeToTheFirst) {
  const Deviation found = between({3, 4}, {3, 4.5});
  EXPECT_DOUBLE_EQ(found.rmse().value(), std::sqrt(0.125));
  EXPECT_DOUBLE_EQ(found.relative_error().value(), 0.1);
  EXPECT_DOUBLE_EQ(found.snr_db().value(), 20);
  EXPECT_EQ(between({1, 2}, {1, 2}).snr_db(), kInfinity);
  EXPECT_FALSE(between({0, 0}, {1, 2}).relative_error());
}

// Equal infinities have no error of their own, and hide no other.
TEST(Deviation, InfinitiesHideNoDifferences) {
  EXPECT_DOUBLE_EQ(between({kInfinity, 3, 4}, {kInfinity, 3, 4.5}).relative_error().value(), 0.1);
  EXPECT_FALSE(between({kInfinity, 1}, {2, 1}).relative_error());
  EXPECT_FALSE(between({1e200, 1}, {1e200, 2}).relative_error()) << "the squares overflow";
  Deviation found(precision_of(*dtype_named("float64")));
  const std::vector<double> a = {kInfinity, kInfinity, kInfinity}, b = {kInfinity, 1, -kInfinity};
  found.add(0, std::span<const double>(a), std::span<const double>(b));
  EXPECT_DOUBLE_EQ(found.share_within(4).value(), 1.0 / 3);
}

TEST(Deviation, PlaceOfTheMaximumIsTheFirst) {
  std::vector<double> a(100, 1), b(100, 1);
  b[30] = b[60] = 4;
  EXPECT_EQ(between(a, b).max_index(), 30u);
  Deviation parts;
  for (size_t i = 0; i < 100; i += 7) {
    const size_t size = std::min<size_t>(7, 100 - i);
    Deviation part;
    part.add(i, std::span<const double>(a).subspan(i, size), std::span<const double>(b).subspan(i, size));
    parts.add(part);
  }
  EXPECT_EQ(parts.max_index(), 30u);
  EXPECT_EQ(parts.max(), 3);
}

// The neighbours of 1 in float16 are 2^-10 above and 2^-11 below.
TEST(Deviation, UnitsInTheLastPlaceAreThoseOfTheLessPreciseType) {
  const auto precision = worse_precision(*dtype_named("float32"), *dtype_named("float16"));
  Deviation found(precision);
  const std::vector<float> a = {1, 1, 1, 1, 0}, b = {1, 1 + 0x1p-10F, 1 + 0x1p-9F, 1.5F, 0x1p-24F};
  found.add(0, std::span<const float>(a), std::span<const float>(b));
  EXPECT_DOUBLE_EQ(found.share_within(0).value(), 3.0 / 5);
  EXPECT_DOUBLE_EQ(found.share_within(1).value(), 4.0 / 5);
  EXPECT_DOUBLE_EQ(found.share_within(4).value(), 4.0 / 5);
  EXPECT_FALSE(worse_precision(*dtype_named("float32"), *dtype_named("q4_0")));
}

TEST(Deviation, DifferencesAreADistribution) {
  const Elements a = Elements::of(test::float32_tensor("a", {1, 2, 3, 4})).value();
  const Elements b = Elements::of(test::tensor_of<double>("b", dtype_named("float64"), {1, 2.5, 3, 3})).value();
  const auto found = deviation_of(a, b, std::nullopt, 1, [](uint64_t) {});
  EXPECT_EQ(found->deviation.differing(), 2u);
  ASSERT_EQ(found->differences.octaves().size(), 2u);
  EXPECT_EQ(found->differences.octaves()[0].exponent, -1);
  EXPECT_EQ(found->differences.octaves()[1].exponent, 0);
}

TEST(Deviation, ChannelsHaveTheirErrors) {
  const Elements a = Elements::of(test::float32_tensor("a", {1, 2, 3, 4, 5, 6})).value();
  const Elements b = Elements::of(test::float32_tensor("b", {1, 2, 6, 4, 5, 2})).value();
  const auto nothing = [](uint64_t) {};
  EXPECT_EQ(channel_errors_of(a, b, Shape{2, 3}, 0, 2, nothing).value(),
            (std::vector<double>{std::sqrt(3.0), std::sqrt(16.0 / 3)}));
  EXPECT_EQ(channel_errors_of(a, b, Shape{2, 3}, 1, 2, nothing).value(), (std::vector<double>{0, 0, std::sqrt(12.5)}));
}

TEST(Deviation, ErrorNamesTheSide) {
  const std::vector<float> values(10, 1);
  const Elements good = Elements::of(test::float32_tensor("a", values)).value();
  const Elements bad = Elements::of(test::unreadable_tensor("b", {10})).value();
  const auto nothing = [](uint64_t) {};
  EXPECT_EQ(deviation_of(good, bad, std::nullopt, 2, nothing).error().side, Side::b);
  EXPECT_EQ(deviation_of(bad, good, std::nullopt, 2, nothing).error().side, Side::a);
}

}  // namespace
}  // namespace weightfs::numbers::deviation_test
