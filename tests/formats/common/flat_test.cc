#include "formats/common/flat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightfs::flat_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<size_t> repeated(const std::vector<std::string>& names) {
  TensorList tensors;
  for (const std::string& name : names)
    tensors.push_back(Tensor{
        .name = name, .dtype = dtype_named("uint8"), .stored_dtype = "U8", .scope = {}, .shape = {}, .source = {}});
  return flat::repeated_names(tensors);
}

TEST(RepeatedNames, AreAllButTheLastOfEqualOnes) {
  EXPECT_THAT(repeated({}), IsEmpty());
  EXPECT_THAT(repeated({"a"}), IsEmpty());
  EXPECT_THAT(repeated({"a", "b", "", "aa"}), IsEmpty());
  EXPECT_THAT(repeated({"a", "b", "a", "c", "b", "a"}), ElementsAre(0, 1, 2));
}

TEST(RepeatedNames, AreFoundAmongMany) {
  std::vector<std::string> names;
  for (int i = 0; i < 50'000; ++i) names.push_back("layer." + std::to_string(i));
  EXPECT_THAT(repeated(names), IsEmpty());
  names[49'999] = names[7];
  names[30'000] = names[20'000];
  EXPECT_THAT(repeated(names), ElementsAre(7, 20'000));
}

}  // namespace
}  // namespace weightfs::flat_test
