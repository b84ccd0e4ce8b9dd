#include "cache/blocks/block_set.h"

#include <gtest/gtest.h>

namespace weightfs::store::block_set_test {
namespace {

// The blocks of a map that another thread writes: after each answer one more block is present.
struct Map {
  std::vector<bool> present;
  size_t step;                    // blocks per answer
  std::optional<size_t> written;  // becomes present after the first answer

  Result<std::vector<bool>> operator()(Blocks of) {
    const uint64_t last = std::min(of.last, of.first + step);
    std::vector<bool> out;
    for (uint64_t block = of.first; block < last; ++block) out.push_back(present[block]);
    if (written) present[*std::exchange(written, std::nullopt)] = true;
    return out;
  }
};

std::string run_of(Map map, Blocks within) {
  const auto run = first_absent_run(within, std::ref(map)).value();
  return run ? std::to_string(run->first) + "-" + std::to_string(run->last) : "none";
}

TEST(FirstAbsentRun, IsTheFirstOne) {
  for (const size_t step : {1u, 2u, 100u}) {
    EXPECT_EQ(run_of({{true, false, false, true, false}, step, {}}, {0, 5}), "1-3");
    EXPECT_EQ(run_of({{true, false, false, true, false}, step, {}}, {2, 5}), "2-3");
    EXPECT_EQ(run_of({{true, false, false, true, false}, step, {}}, {3, 5}), "4-5");
    EXPECT_EQ(run_of({{true, false, false, true, false}, step, {}}, {3, 4}), "none");
    EXPECT_EQ(run_of({{true}, step, {}}, {0, 0}), "none");
  }
}

// A transfer writes the first absent block just after it was found to be absent: the rest is still reported.
TEST(FirstAbsentRun, IsNotEmptyIfItsFirstBlockIsWrittenMeanwhile) {
  EXPECT_EQ(run_of({{true, false, false, false}, 4, 1}, {0, 4}), "1-4");
  EXPECT_EQ(run_of({{true, false, false, false}, 2, 1}, {0, 4}), "1-4");
  EXPECT_EQ(run_of({{true, false, false, false}, 1, 1}, {0, 4}), "2-4");
}

TEST(FirstAbsentRun, FailsAsTheMapDoes) {
  const auto failing = [](Blocks) -> Result<std::vector<bool>> { return failure(Code::io, "the cache"); };
  EXPECT_EQ(first_absent_run({0, 1}, failing).error().message, "the cache");
}

}  // namespace
}  // namespace weightfs::store::block_set_test
