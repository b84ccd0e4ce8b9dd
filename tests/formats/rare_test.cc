#include "formats/rare.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace weightfs::rare_test {
namespace {

TEST(Rare, ReadsAsDefaultUntilItIsEdited) {
  Rare<std::vector<int>> numbers;
  EXPECT_TRUE(numbers->empty());
  numbers.edit().push_back(1);
  numbers.edit().push_back(2);
  EXPECT_EQ(*numbers, (std::vector<int>{1, 2}));
  EXPECT_TRUE(Rare<std::vector<int>>()->empty());
}

TEST(Rare, KeepsItsValueWhenMoved) {
  Rare<std::vector<int>> from;
  from.edit() = {1, 2};
  const Rare<std::vector<int>> to = std::move(from);
  EXPECT_EQ(*to, (std::vector<int>{1, 2}));
}

TEST(Rare, IsSmall) { EXPECT_EQ(sizeof(Rare<std::vector<int>>), sizeof(void*)); }

}  // namespace
}  // namespace weightfs::rare_test
