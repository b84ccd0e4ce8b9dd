// The kinds of tensors in the bars of a model.
#include "serve/api/layer_bars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "base/values/json.h"
#include "formats/format.h"
#include "formats/names/names.h"
#include "tests/builders/gguf_builder.h"
#include "tests/support/name_parsers.h"

namespace weightfs::layer_bars_test {
namespace {

using namespace test;
using api::kind_of_bar;
using mapping::name_rows;
using mapping::NameRow;
using summary::NameParser;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(KindsOfBars, BothNamesOfARowHaveOneKind) {
  size_t rows = 0;
  std::set<std::string_view> kinds;
  for (const mapping::Architecture& architecture : mapping::architectures()) {
    const NameParser hub = by_class(kRowClasses.at(static_cast<size_t>(architecture.id)));
    const NameParser gguf = by_architecture(architecture.name);
    for (const NameRow& row : name_rows()) {
      if ((row.architectures & bit(architecture.id)) == 0 || row.op == mapping::Op::drop) continue;
      const std::string_view kind = kind_of_bar(fill(row.hub, kRowNumbers), hub);
      EXPECT_EQ(kind, kind_of_bar(fill(row.gguf, kRowNumbers), gguf))
          << architecture.name << ": " << row.hub << " and " << row.gguf;
      kinds.insert(kind);
      ++rows;
    }
  }
  EXPECT_GT(rows, 300U);
  EXPECT_THAT(kinds, ElementsAre("attention", "embedding", "experts", "feed-forward", "norm", "other"));
}

TEST(KindsOfBars, SharedExpertsAreExpertsAndTheirGatesAreNot) {
  for (const auto& [names, up, gate] :
       {std::tuple(by_class("Qwen2MoeForCausalLM"), "model.layers.0.mlp.shared_expert.up_proj.weight",
                   "model.layers.0.mlp.shared_expert_gate.weight"),
        std::tuple(by_architecture("qwen2moe"), "blk.0.ffn_up_shexp.weight", "blk.0.ffn_gate_inp_shexp.weight"),
        std::tuple(by_class("FooForCausalLM"), "model.layers.0.mlp.shared_expert.up_proj.weight",
                   "model.layers.0.mlp.shared_expert_gate.weight"),
        std::tuple(by_architecture("foo"), "blk.0.ffn_up_shexp.weight", "blk.0.ffn_gate_inp_shexp.weight")}) {
    EXPECT_EQ(kind_of_bar(up, names), "experts") << up;
    EXPECT_EQ(kind_of_bar(gate, names), "feed-forward") << gate;
  }
}

TEST(KindsOfBars, NamesBesideTheTableHaveTheKindsOfTheirWords) {
  const NameParser llama = by_class("LlamaForCausalLM");
  EXPECT_EQ(kind_of_bar("transformer.wte.weight", llama), "embedding");
  EXPECT_EQ(kind_of_bar("vision_tower.layers.0.self_attn.q_proj.weight", llama), "attention");
  EXPECT_EQ(kind_of_bar("model.layers.0.mlp.up_proj.lora_A.weight", llama), "feed-forward");
  EXPECT_EQ(kind_of_bar("head.weight", llama), "other");
}

// Words alone would have the bias as "other".
TEST(KindsOfBars, BarsOfAModelAreByTheTableOfItsArchitecture) {
  GgufBuilder builder;
  builder.string("general.architecture", "deepseek2");
  builder.tensor("blk.0.exp_probs_b.bias", {1}, 0, "four").tensor("blk.0.ffn_up_shexp.weight", {2}, 0, "eightbyt");
  const auto model = std::make_shared<Model>(read_model({"m.gguf", in_memory(builder.build())}).value());
  const api::OpenModel of(model, "", "");
  const NameParser names(*model, of.summarised().summary);
  EXPECT_THAT(to_json_line(api::layer_bars(of, names)),
              HasSubstr(R"("name":"blk.0","under":"blk.0.","tensor":null,"bytes":12,"kinds":[0,4,8,0,0,0])"));
}

}  // namespace
}  // namespace weightfs::layer_bars_test
