// What names of tensors show, by the table of names and without it.
#include "formats/summary/tensors/tensor_name.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "formats/names/architecture.h"
#include "formats/names/names.h"
#include "tests/support/name_parsers.h"

namespace weightfs::tensor_name_test {
namespace {

using mapping::name_rows;
using mapping::NameRow;
using mapping::Op;
using summary::NameParser;
using summary::TensorName;
using test::by_architecture;
using test::by_class;
using test::kRowClasses;
using test::kRowNumbers;
using testing::ElementsAre;

// What the sums of a summary depend on.
std::string counted_as(const TensorName& name) {
  std::string out = name.layer == TensorName::kNone ? "" : fmt::format("layer {} ", name.layer);
  if (name.is_embedding) out += "embedding ";
  if (name.is_head) out += "head ";
  if (name.expert != TensorName::kNone || name.is_stacked) out += "expert ";
  if (!name.is_text()) out += "tower ";
  return out;
}

std::string roles_of(const TensorName& name) {
  std::string out = counted_as(name);
  if (name.is_lookup) out += "lookup ";
  if (name.is_ffn) out += "ffn ";
  if (name.is_query_norm) out += "query_norm ";
  if (name.is_keys) out += "keys ";
  if (name.is_latent) out += "latent ";
  return out;
}

TEST(TensorName, BothNamesOfARowHaveOneRole) {
  size_t rows = 0;
  for (const mapping::Architecture& architecture : mapping::architectures()) {
    const char* const class_name = kRowClasses.at(static_cast<size_t>(architecture.id));
    ASSERT_EQ(mapping::architecture_of_class(class_name), &architecture) << class_name;
    const NameParser hub = by_class(class_name), gguf = by_architecture(architecture.name);
    for (const NameRow& row : name_rows()) {
      if ((row.architectures & bit(architecture.id)) == 0 || row.op == Op::drop) continue;
      EXPECT_EQ(roles_of(hub.parse(fill(row.hub, kRowNumbers))), roles_of(gguf.parse(fill(row.gguf, kRowNumbers))))
          << architecture.name << ": " << row.hub << " and " << row.gguf;
      ++rows;
    }
  }
  EXPECT_GT(rows, 300U);
}

// The usual patterns agree with the table, so a fine-tune of an unknown class has the same numbers. Two rows differ:
// they take the scores of a classifier for those of tokens, and scales of experts for parts of their router.
TEST(TensorName, WithoutTheTableTensorsCountAsTheSame) {
  std::set<std::string> others;
  const NameParser usual_hub = by_class("FooForCausalLM"), usual_gguf = by_architecture("foo");
  for (const mapping::Architecture& architecture : mapping::architectures()) {
    const NameParser hub = by_class(kRowClasses.at(static_cast<size_t>(architecture.id)));
    const NameParser gguf = by_architecture(architecture.name);
    for (const NameRow& row : name_rows()) {
      if ((row.architectures & bit(architecture.id)) == 0) continue;
      for (const auto& [table, usual, pattern] :
           {std::tuple(&hub, &usual_hub, row.hub), std::tuple(&gguf, &usual_gguf, row.gguf)}) {
        const std::string name = fill(pattern, kRowNumbers);
        if (!name.empty() && counted_as(table->parse(name)) != counted_as(usual->parse(name))) others.insert(name);
      }
    }
  }
  EXPECT_THAT(others, ElementsAre("cls.output.weight", "model.layers.7.router.per_expert_scale"));
}

TEST(TensorName, TableDecidesWhatANameMeansInItsArchitecture) {
  // The norm of OLMo 2 is that of all heads, so its size is not the size of a head.
  EXPECT_TRUE(by_class("Qwen3ForCausalLM").parse("model.layers.0.self_attn.q_norm.weight").is_query_norm);
  EXPECT_FALSE(by_class("Olmo2ForCausalLM").parse("model.layers.0.self_attn.q_norm.weight").is_query_norm);
  EXPECT_TRUE(by_class("BertModel").parse("encoder.layer.0.intermediate.dense.weight").is_ffn);
  EXPECT_FALSE(by_architecture("bert").parse("cls.output.weight").is_head);
  EXPECT_FALSE(by_architecture("phi3").parse("blk.0.ffn_up.weight").is_ffn);
}

TEST(TensorName, NamesBesideTheTableAreParsedAsUsual) {
  const NameParser llama = by_class("LlamaForCausalLM");
  EXPECT_TRUE(llama.parse("transformer.wte.weight").is_embedding);
  EXPECT_TRUE(llama.parse("vision_tower.model.layers.2.mlp.up_proj.weight").is_vision);
  EXPECT_EQ(llama.parse("model.layers.2.self_attn.k_proj.lora_A.weight").layer, 2U);
  EXPECT_TRUE(llama.parse("mtp.fc.weight").is_predictor);
}

TEST(TensorName, KeysAreThoseOfDecoders) {
  const NameParser bart = by_class("BartForConditionalGeneration");
  EXPECT_TRUE(bart.parse("model.decoder.layers.0.self_attn.k_proj.weight").is_keys);
  EXPECT_FALSE(bart.parse("model.encoder.layers.0.self_attn.k_proj.weight").is_keys);
  EXPECT_FALSE(bart.parse("model.decoder.layers.0.encoder_attn.k_proj.weight").is_keys);
  EXPECT_TRUE(by_architecture("jamba").parse("blk.4.attn_k.weight").is_keys);
  EXPECT_FALSE(by_architecture("jamba").parse("blk.4.ssm_in.weight").is_keys);
}

TEST(TensorName, NumberAndWordOfExpertsAreThoseOfTheTable) {
  std::set<std::string> others;
  size_t experts = 0;
  for (const mapping::Architecture& architecture : mapping::architectures()) {
    const NameParser hub = by_class(kRowClasses.at(static_cast<size_t>(architecture.id)));
    for (const NameRow& row : name_rows()) {
      if ((row.architectures & bit(architecture.id)) == 0) continue;
      const std::string name = fill(row.hub, kRowNumbers);
      const bool has_number = hub.parse(name).expert != TensorName::kNone;
      EXPECT_EQ(summary::expert_in(name).value_or("none"), has_number ? "3" : "none") << name;
      experts += has_number ? 1 : 0;
      if (hub.is_expert(name) != summary::has_word_of_experts(name)) others.insert(name);
      if (!row.gguf.empty())
        EXPECT_EQ(summary::has_word_of_experts(fill(row.gguf, kRowNumbers)), hub.is_expert(name)) << row.gguf;
    }
  }
  EXPECT_GT(experts, 10U);
  EXPECT_THAT(others, ElementsAre("model.layers.7.mlp.shared_experts.down_proj.weight",
                                  "model.layers.7.mlp.shared_experts.gate_proj.weight",
                                  "model.layers.7.mlp.shared_experts.up_proj.weight",
                                  "model.layers.7.router.per_expert_scale"));
}

TEST(TensorName, HeadIsThatOfTheTable) {
  EXPECT_FALSE(by_architecture("bert").is_head("cls.output.weight"));
  EXPECT_TRUE(by_architecture("foo").is_head("cls.output.weight")) << "by its words";
  EXPECT_TRUE(by_architecture("llama").is_head("output.weight"));
  EXPECT_TRUE(by_class("FooForCausalLM").is_head("head.weight"));
}

}  // namespace
}  // namespace weightfs::tensor_name_test
