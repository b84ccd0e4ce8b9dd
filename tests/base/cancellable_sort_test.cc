// A sort that ends when it is cancelled.
#include "base/cancellable_sort.h"

#include <gtest/gtest.h>

#include <utility>

namespace weightfs::cancellable_sort_test {
namespace {

using Pair = std::pair<uint32_t, uint32_t>;

// More than one part, whose sizes are no power of two.
std::vector<Pair> pairs() {
  std::vector<Pair> out;
  for (uint32_t i = 0; i < 100'003; ++i) out.emplace_back(i * 2654435761U % 1009, i);
  return out;
}

TEST(CancellableSort, EqualOnesKeepTheirOrder) {
  std::vector<Pair> found = pairs(), expected = pairs();
  ASSERT_TRUE(sort_cancellably(found, [](const Pair& a, const Pair& b) { return a.first < b.first; }));
  std::ranges::sort(expected);
  EXPECT_EQ(found, expected);
  std::vector<Pair> none;
  EXPECT_TRUE(sort_cancellably(none));
}

TEST(CancellableSort, EndsWhenItIsCancelled) {
  int asked = 0;
  const CancelScope scope([&] { return ++asked > 3; });
  std::vector<Pair> all = pairs();
  EXPECT_EQ(sort_cancellably(all).error().message, "cancelled");
  EXPECT_EQ(asked, 4);
}

}  // namespace
}  // namespace weightfs::cancellable_sort_test
