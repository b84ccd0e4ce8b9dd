// Large parameters of Paddle, which are stored as slices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/python_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"

namespace weightfs::python_slices_test {
namespace {

using namespace test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Cut {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<std::string> slices;
};

PickleBuilder table(const std::vector<Cut>& parameters) {
  PickleBuilder items;
  for (const Cut& cut : parameters) {
    PickleBuilder names;
    names.raw("]").mark();
    for (const std::string& slice : cut.slices) names.text(slice);
    items.text(cut.name).add(
        dict(PickleBuilder().text("OriginShape").integers(cut.shape).text("slices").add(names.raw("e"))));
  }
  return dict(items);
}

// "w" of 2 x 3 in two slices, with "b" between them.
Model read(const std::vector<Cut>& parameters, const PickleBuilder& second = array("u1", {2}, "ef")) {
  PickleBuilder items;
  items.text("w@@.0").add(array("u1", {4}, "abcd")).text("b").add(array("u1", {1}, "x"));
  items.text("w@@.1").add(second).text("UnpackBigParamInfor@@").add(table(parameters));
  return well(read_as("pickle", {"m.pdparams", in_memory(dict(items).pickle())}));
}

TEST(PaddleSlices, SlicesAreJoined) {
  const Model model = read({{"w", {2, 3}, {"w@@.0", "w@@.1"}}});
  EXPECT_THAT(listing(model), ElementsAre("w uint8 <u1 [2x3] abcdef", "b uint8 <u1 [1] x"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(PaddleSlices, WrongSlicesRefuseTheTensorAndStay) {
  const std::vector<std::string> both = {"w@@.0", "w@@.1"};
  const std::vector<std::pair<Cut, const char*>> wrong = {
      {{"w", {2, 3}, {"w@@.0", "w@@.1", "w@@.2"}}, "its slice \"w@@.2\" is missing"},
      {{"w", {2, 3}, {"w@@.0"}}, "its slices have 4 elements"},
      {{"w", {2, 4}, both}, "its slices have 6 elements"},
      {{"w", {int64_t{1} << 40, int64_t{1} << 40}, both}, "its slices have 6 elements"},
      {{"w", {-1, 3}, both}, "below 0"},
      {{"w", {2, 4}, {"w@@.0", "w@@.0"}}, "used twice"},
      {{"w", {0}, {}}, "no list of its slices"}};
  for (const auto& [cut, why] : wrong) {
    const Model model = read({cut});
    EXPECT_THAT(model.warnings, ElementsAre(HasSubstr(why)));
    EXPECT_THAT(listing(model), ElementsAre("w@@.0 uint8 <u1 [4] abcd", "b uint8 <u1 [1] x", "w@@.1 uint8 <u1 [2] ef",
                                            "w unknown unknown [] refused"))
        << why;
  }
  const Cut cut{"w", {2, 3}, both};
  EXPECT_THAT(read({cut}, array("i1", {2}, "ef")).warnings, ElementsAre(HasSubstr("is of another type")));
  EXPECT_THAT(read({cut}, array("u1", {1, 2}, "ef")).warnings, ElementsAre(HasSubstr("is not flat")));
  EXPECT_THAT(read({cut}, array("u1", {3}, "ef")).warnings, Contains(HasSubstr("is refused")));
}

TEST(PaddleSlices, EachSliceIsUsedOnce) {
  const Model model = read({{"w", {6}, {"w@@.0", "w@@.1"}}, {"v", {6}, {"w@@.0", "w@@.1"}}});
  EXPECT_THAT(listing(model),
              ElementsAre("w uint8 <u1 [6] abcdef", "b uint8 <u1 [1] x", "v unknown unknown [] refused"));
}

TEST(PaddleSlices, ArrayOfTheNameIsReplaced) {
  EXPECT_THAT(listing(read({{"b", {6}, {"w@@.0", "w@@.1"}}})), ElementsAre("b uint8 <u1 [6] abcdef"));
  EXPECT_THAT(listing(read({{"w@@.0", {6}, {"w@@.0", "w@@.1"}}})),
              ElementsAre("w@@.0 uint8 <u1 [6] abcdef", "b uint8 <u1 [1] x"));
}

}  // namespace
}  // namespace weightfs::python_slices_test
