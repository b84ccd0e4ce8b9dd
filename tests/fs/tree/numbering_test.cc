#include "fs/tree/numbering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightfs::numbering_test {
namespace {

using testing::ElementsAre;

std::vector<Ino> numbers_of(const Numbering& numbering, TreeId tree) { return *numbering.numbers(tree); }

TEST(Numbering, NumbersAreConsecutiveAndNeverUsedAgain) {
  Numbering numbering;
  EXPECT_EQ(numbering.take(3), 1u);
  const TreeId tree = numbering.add_updated(2, std::nullopt);
  EXPECT_THAT(numbers_of(numbering, tree), ElementsAre(4, 5));
  numbering.remove(tree);
  EXPECT_EQ(numbering.take(1), 6u);
  EXPECT_FALSE(numbering.find(4));
  EXPECT_FALSE(numbering.find(5));
}

TEST(Numbering, UpdateKeepsNumbersAndGivesNewOnes) {
  Numbering numbering;
  const TreeId tree = numbering.add_updated(3, 77);
  EXPECT_THAT(numbers_of(numbering, tree), ElementsAre(77, 2, 3));
  numbering.update(tree, {77, 0, 3, 0});
  EXPECT_THAT(numbers_of(numbering, tree), ElementsAre(77, 4, 3, 5));
  EXPECT_FALSE(numbering.find(2));
  EXPECT_EQ(numbering.find(3)->index, 2u);
  EXPECT_EQ(numbering.find(5)->index, 3u);
  EXPECT_EQ(numbering.find(5)->tree, tree);
  EXPECT_FALSE(numbering.find(6));
}

TEST(Numbering, OtherTreesAreNotAffectedByRemoval) {
  Numbering numbering;
  const TreeId first = numbering.add_updated(2, std::nullopt);
  const TreeId second = numbering.add_updated(2, std::nullopt);
  numbering.update(first, {1, 0});
  numbering.remove(first);
  EXPECT_FALSE(numbering.find(first + 1));
  EXPECT_EQ(numbering.find(second + 1)->tree, second);
}

}  // namespace
}  // namespace weightfs::numbering_test
