// Lists of checksums beside files, and what reading them may cost.
#include "sources/disk/stated_digests.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "tests/support/temporary.h"

namespace weightfs::stated_digests_test {
namespace {

TEST(StatedDigests, ListsOfPartsAndNotesAreChargedToTheBudget) {
  const TemporaryDirectory here;
  const std::string hex = sha256("a").hex();
  here.write("a.gguf", "a");
  here.write("a.gguf.sha256", hex + std::string(1 << 10, '\n'));
  here.write("b.safetensors", "b");
  here.write("b.civitai.info", R"({"sha256": ")" + hex + R"("})");
  const Location top{std::make_shared<const ConfinedDirectory>(
      Descriptor(::open(here.path("").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), here.path(""), Confinement{})};
  const StatedDigests stated(top, {"a.gguf", "a.gguf.sha256", "b.civitai.info", "b.safetensors"});
  for (const std::string file : {"a.gguf", "b.safetensors"}) {
    Budget budget(0);
    std::vector<std::string> warnings;
    ASSERT_TRUE(stated.find(file, &budget, warnings)) << file;
    EXPECT_TRUE(warnings.empty());
    EXPECT_GE(budget.time_used(), 5'000u) << file;
    while (budget.charge(Cost::input, 1'000)) continue;
    EXPECT_FALSE(stated.find(file, &budget, warnings)) << file;
    ASSERT_EQ(warnings.size(), 1u) << file;
    EXPECT_TRUE(warnings[0].ends_with("; not compared with it")) << warnings[0];
    EXPECT_TRUE(stated.find(file, nullptr, warnings)) << file;
  }
}

}  // namespace
}  // namespace weightfs::stated_digests_test
