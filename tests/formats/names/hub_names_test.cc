// The table of names, and how names fit its patterns.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "formats/names/names.h"

namespace weightfs::hub_names_test {
namespace {

using mapping::fill;
using mapping::fit;
using mapping::name_rows;
using mapping::NameRow;
using mapping::Numbers;

TEST(HubNames, PatternsFitNamesWithNumbersAndSuffixes) {
  const auto numbers =
      fit("model.layers.{}.mlp.experts.{x}.up_proj.weight", "model.layers.12.mlp.experts.3.up_proj.weight");
  ASSERT_TRUE(numbers);
  EXPECT_EQ(numbers->block, 12U);
  EXPECT_EQ(numbers->expert, 3U);
  const auto bias = fit("blk.{}.attn_q.*", "blk.0.attn_q.bias");
  ASSERT_TRUE(bias);
  EXPECT_EQ(bias->suffix, ".bias");
}

TEST(HubNames, OtherNamesDoNotFit) {
  for (const char* name : {"blk.0.attn_q", "blk.0.attn_q.scale", "blk..attn_q.weight", "blk.01.attn_q.weight",
                           "blk.0.attn_q.weight.x", "blk.-1.attn_q.weight", "blk.1234567.attn_q.weight",
                           "blk.99999999999999999999.attn_q.weight", "xblk.0.attn_q.weight", ""})
    EXPECT_FALSE(fit("blk.{}.attn_q.*", name)) << name;
}

TEST(HubNames, FilledPatternFitsAgain) {
  const Numbers numbers{7, 9, ".bias"};
  for (const NameRow& row : name_rows()) {
    if (row.gguf.empty()) continue;
    for (const std::string_view pattern : {row.hub, row.gguf}) {
      const std::string name = fill(pattern, numbers);
      EXPECT_EQ(name.find('{'), std::string::npos) << name;
      EXPECT_TRUE(fit(pattern, name)) << pattern << " and " << name;
    }
  }
}

// A name of a repository has one row for an architecture, but for tensors of which a GGUF has several parts.
TEST(HubNames, RowsOfAnArchitectureAreUnique) {
  for (const mapping::Architecture& architecture : mapping::architectures()) {
    std::map<std::string_view, std::set<std::string_view>> made;
    for (const NameRow& row : name_rows())
      if ((row.architectures & bit(architecture.id)) != 0) {
        EXPECT_TRUE(made[row.hub].insert(row.gguf).second) << architecture.name << ": " << row.hub;
        EXPECT_LE(made[row.hub].size(), 2U) << architecture.name << ": " << row.hub;
      }
    EXPECT_FALSE(made.empty()) << architecture.name;
  }
}

}  // namespace
}  // namespace weightfs::hub_names_test
