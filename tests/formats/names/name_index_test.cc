// The rows of the table by the names of tensors.
#include "formats/names/name_index.h"

#include <gtest/gtest.h>

namespace weightfs::name_index_test {
namespace {

using mapping::architecture_named;
using mapping::NameForm;
using mapping::NameIndex;
using mapping::TensorPart;

NameIndex index_of(std::string_view architecture, NameForm form) {
  return NameIndex(*architecture_named(architecture), form);
}

TEST(NameIndex, NumbersOfBlocksAndExpertsAreFound) {
  const auto found = index_of("qwen3moe", NameForm::hub).find("model.layers.12.mlp.experts.3.up_proj.weight");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->part, TensorPart::expert);
  EXPECT_EQ(found->block, 12U);
  EXPECT_EQ(found->expert, 3U);
  const auto stacked = index_of("qwen3moe", NameForm::gguf).find("blk.12.ffn_up_exps.weight");
  ASSERT_TRUE(stacked);
  EXPECT_EQ(stacked->part, TensorPart::expert);
  EXPECT_EQ(stacked->block, 12U);
  EXPECT_FALSE(stacked->expert);
}

TEST(NameIndex, PiecesOfAModuleAreItsPart) {
  const NameIndex llama = index_of("llama", NameForm::hub);
  for (const char* piece : {"qweight", "scales", "weight", "bias", "weight_packed"}) {
    const auto found = llama.find(std::string("model.layers.0.self_attn.k_proj.") + piece);
    ASSERT_TRUE(found) << piece;
    EXPECT_EQ(found->part, TensorPart::keys) << piece;
  }
}

TEST(NameIndex, TensorThatIsNamedLikeAPieceHasARowOfItsOwn) {
  const NameIndex gemma = index_of("gemma4", NameForm::gguf);
  EXPECT_EQ(gemma.find("blk.0.ffn_gate_inp.scale")->part, TensorPart::router);
  EXPECT_EQ(gemma.find("blk.0.ffn_down_exps.scale")->part, TensorPart::expert);
  EXPECT_EQ(index_of("deepseek2", NameForm::hub).find("model.layers.3.mlp.gate.e_score_correction_bias")->part,
            TensorPart::router);
}

TEST(NameIndex, PrefixOfATextModelIsNotLookedAt) {
  const NameIndex gemma = index_of("gemma3", NameForm::hub);
  for (const char* prefix : {"", "model.", "language_model.model.", "model.language_model."}) {
    const auto found = gemma.find(std::string(prefix) + "layers.4.self_attn.q_norm.weight");
    ASSERT_TRUE(found) << prefix;
    EXPECT_EQ(found->part, TensorPart::query_norm) << prefix;
    EXPECT_EQ(found->block, 4U) << prefix;
  }
  EXPECT_EQ(index_of("bert", NameForm::hub).find("bert.embeddings.word_embeddings.weight")->part,
            TensorPart::embedding);
  EXPECT_FALSE(index_of("llama", NameForm::gguf).find("model.token_embd.weight"));
}

TEST(NameIndex, TheSameNameIsAnotherPartInAnotherArchitecture) {
  EXPECT_EQ(index_of("llama", NameForm::gguf).find("blk.0.ffn_up.weight")->part, TensorPart::feed_forward_in);
  EXPECT_EQ(index_of("phi3", NameForm::gguf).find("blk.0.ffn_up.weight")->part, TensorPart::feed_forward);
  EXPECT_EQ(index_of("olmo2", NameForm::hub).find("model.layers.0.self_attn.q_norm.weight")->part, TensorPart::norm);
}

TEST(NameIndex, OtherNamesAreNotFound) {
  const NameIndex llama = index_of("llama", NameForm::hub);
  for (const std::string& name :
       {std::string(), std::string("."), std::string("model"), std::string("model.layers.0"),
        std::string("model.layers.#.self_attn.k_proj.weight"), std::string("model.layers.01.self_attn.k_proj.weight"),
        std::string("model.layers.1234567.self_attn.k_proj.weight"), std::string("model.layers.0.1.2.weight"),
        std::string("vision_tower.model.layers.0.self_attn.k_proj.weight"),
        std::string("model.layers.0.self_attn.k_proj.lora_A.weight"), std::string(100'000, 'a'),
        "model.layers.0.self_attn.k_proj." + std::string(100, 'b')})
    EXPECT_FALSE(llama.find(name)) << name.substr(0, 60);
}

}  // namespace
}  // namespace weightfs::name_index_test
