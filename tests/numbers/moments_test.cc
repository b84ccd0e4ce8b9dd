// Moments and counts are the same however the numbers are divided.
#include "numbers/moments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "numbers/counts.h"
#include "numbers/dead_rows.h"

namespace weightfs::numbers::moments_test {
namespace {

std::vector<float> random_numbers(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(3, 0.5F);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Calls `use` with consecutive parts of random sizes.
template <class Use>
void for_each_part(std::span<const float> values, std::mt19937& random, const Use& use) {
  for (size_t first = 0; first < values.size();) {
    const size_t size = std::min<size_t>(values.size() - first, random() % 977);
    use(first, values.subspan(first, size));
    first += size;
  }
}

TEST(Moments, AreTheSameForEverySplit) {
  std::mt19937 random(11);
  const std::vector<float> values = random_numbers(20'000, random);
  Moments whole;
  whole.add(std::span<const float>(values));
  for (int split = 0; split < 50; ++split) {
    std::vector<Moments> shards(1 + random() % 5);
    for_each_part(values, random, [&](size_t, std::span<const float> part) {
      Moments chunk;
      chunk.add(part);
      shards[random() % shards.size()].add(chunk);
    });
    Moments all;
    for (const Moments& shard : shards) all.add(shard);
    EXPECT_EQ(all.count(), whole.count());
    EXPECT_EQ(all.min(), whole.min());
    EXPECT_EQ(all.max(), whole.max());
    EXPECT_NEAR(all.mean(), whole.mean(), 1e-12);
    EXPECT_NEAR(all.std(), whole.std(), 1e-12);
    EXPECT_NEAR(*all.skewness(), *whole.skewness(), 1e-12);
    EXPECT_NEAR(*all.kurtosis(), *whole.kurtosis(), 1e-12);
    EXPECT_NEAR(all.l1() / whole.l1(), 1, 1e-12);
    EXPECT_NEAR(all.l2() / whole.l2(), 1, 1e-12);
  }
}

TEST(Moments, OfCountedNumbersAreThoseOfTheNumbers) {
  const std::vector<double> values = {-2, -2, -2, 0, 0, 5, 5, 5, 5, 7};
  Moments one_by_one, counted;
  one_by_one.add(std::span<const double>(values));
  const std::vector<Counted> counts = {{-2, 3}, {0, 2}, {5, 4}, {7, 1}};
  counted.add(counts);
  EXPECT_EQ(counted.zeros(), 2u);
  EXPECT_DOUBLE_EQ(counted.mean(), one_by_one.mean());
  EXPECT_DOUBLE_EQ(counted.std(), one_by_one.std());
  EXPECT_NEAR(*counted.kurtosis(), *one_by_one.kurtosis(), 1e-14);
}

TEST(Counts, AreTheSameForEverySplit) {
  std::mt19937 random(12);
  const std::vector<float> values = random_numbers(20'000, random);
  Counts whole(Form::floats);
  whole.add(std::span<const float>(values));
  const Distribution expected = whole.distribution();
  for (int split = 0; split < 10; ++split) {
    std::vector<Counts> threads(3, Counts(Form::floats));
    for_each_part(values, random, [&](size_t, std::span<const float> part) { threads[random() % 3].add(part); });
    threads[0].add(threads[1]);
    threads[2].add(threads[0]);
    const Distribution found = threads[2].distribution();
    ASSERT_EQ(found.bins.size(), expected.bins.size());
    for (size_t i = 0; i < found.bins.size(); ++i) EXPECT_EQ(found.bins[i].count, expected.bins[i].count);
    for (const uint64_t rank : {0u, 5000u, 19'999u}) EXPECT_EQ(found.at(rank), expected.at(rank));
  }
}

// Few numbers are sorted, many are counted in a table.
TEST(Counts, FewNumbersAreCountedAsManyAre) {
  std::mt19937 random(14);
  const std::vector<float> values = random_numbers(100, random);
  Counts few(Form::floats), many(Form::floats);
  few.add(std::span<const float>(values));
  for (int i = 0; i < 1000; ++i) many.add(std::span<const float>(values));
  const Distribution a = few.distribution(), b = many.distribution();
  ASSERT_EQ(a.bins.size(), b.bins.size());
  EXPECT_EQ(a.count * 1000, b.count);
  for (size_t i = 0; i < a.bins.size(); ++i) {
    EXPECT_EQ(a.bins[i].index, b.bins[i].index);
    EXPECT_EQ(a.bins[i].count * 1000, b.bins[i].count);
  }
}

TEST(DeadRows, AreTheSameForEverySplit) {
  std::mt19937 random(13);
  for (const uint64_t length : {1u, 3u, 100u, 2500u, 20'000u}) {
    std::vector<float> values(20'000, 1);
    uint64_t expected = 0;
    for (size_t row = 0; row < values.size() / length; ++row) {
      const bool is_dead = random() % 3 == 0;
      for (size_t i = 0; i < length; ++i) values[row * length + i] = is_dead || random() % 4 == 0 ? 0.0F : 1.0F;
      expected +=
          std::ranges::all_of(std::span(values).subspan(row * length, length), [](float value) { return value == 0; })
              ? 1U
              : 0U;
    }
    for (int split = 0; split < 20; ++split) {
      DeadRows all(0, length);
      for_each_part(values, random, [&](size_t first, std::span<const float> part) {
        DeadRows chunk(first, length);
        chunk.add(part);
        all.add(chunk);
      });
      EXPECT_EQ(all.count(), expected) << length;
    }
  }
}

}  // namespace
}  // namespace weightfs::numbers::moments_test
