// config.json of transformers, made of the keys of a GGUF.
#include "formats/mapping/hub/hub_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/values/json.h"
#include "formats/mapping/config/rope.h"
#include "tests/support/gguf_reading.h"

namespace weightfs::hub_config_test {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::Not;

constexpr uint32_t kTypeF32 = 0;
constexpr uint32_t kTypeBf16 = 30;

std::string config_of(const GgufBuilder& builder) {
  Budget budget(1'000'000);
  const auto text = mapping::hub_config(read_well(builder.build()), budget);
  return text ? *text : "error: " + text.error().message;
}

std::string floats(const std::vector<float>& numbers) {
  std::string out(numbers.size() * sizeof(float), '\0');
  std::memcpy(out.data(), numbers.data(), out.size());
  return out;
}

// A field as one line of JSON.
std::string field(const GgufBuilder& builder, std::string_view name) {
  const std::string text = config_of(builder);
  const auto parsed = parse_json(*in_memory(text), 0, text.size());
  const auto* const map = parsed ? std::get_if<Map>(&*parsed) : nullptr;
  return map == nullptr ? text : json_at(*map, name);
}

// The keys that each decoder has: 2 layers, 64 wide, 4 heads, 5 tokens.
GgufBuilder decoder(const std::string& arch) {
  GgufBuilder out;
  out.string("general.architecture", arch).u32(arch + ".block_count", 2).u32(arch + ".context_length", 512);
  out.u32(arch + ".embedding_length", 64).u32(arch + ".feed_forward_length", 128);
  out.u32(arch + ".attention.head_count", 4).u32(arch + ".attention.head_count_kv", 2);
  out.f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5F).f32(arch + ".rope.freq_base", 500'000);
  out.tensor("token_embd.weight", {64, 5}, kTypeBf16, std::string(640, '\0'));
  return out;
}

TEST(HubConfig, LlamaHasTheFieldsOfItsClass) {
  EXPECT_EQ(config_of(decoder("llama")
                          .u32("llama.attention.key_length", 16)
                          .u32("tokenizer.ggml.bos_token_id", 1)
                          .u32("tokenizer.ggml.eos_token_id", 2)),
            R"({
  "architectures": [
    "LlamaForCausalLM"
  ],
  "model_type": "llama",
  "hidden_size": 64,
  "intermediate_size": 128,
  "num_attention_heads": 4,
  "max_position_embeddings": 512,
  "rms_norm_eps": 1e-05,
  "head_dim": 16,
  "num_hidden_layers": 2,
  "num_key_value_heads": 2,
  "vocab_size": 5,
  "tie_word_embeddings": true,
  "bos_token_id": 1,
  "eos_token_id": 2,
  "torch_dtype": "bfloat16",
  "hidden_act": "silu",
  "attention_bias": false,
  "mlp_bias": false,
  "rope_theta": 500000.0
}
)");
}

TEST(HubConfig, MissingHeadsOfKeysAreAsManyAsHeads) {
  GgufBuilder out;
  out.string("general.architecture", "llama").u32("llama.block_count", 1).u32("llama.context_length", 8);
  out.u32("llama.embedding_length", 8).u32("llama.feed_forward_length", 8).u32("llama.attention.head_count", 2);
  out.f32("llama.attention.layer_norm_rms_epsilon", 1e-5F)
      .tensor("token_embd.weight", {8, 1}, kTypeF32, floats({0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(field(out, "num_key_value_heads"), "2");
  EXPECT_EQ(field(out, "torch_dtype"), "\"float32\"");
}

TEST(HubConfig, LlamaWithExpertsIsMixtral) {
  const GgufBuilder out = decoder("llama").u32("llama.expert_count", 8).u32("llama.expert_used_count", 2);
  EXPECT_EQ(field(out, "architectures"), R"(["MixtralForCausalLM"])");
  EXPECT_EQ(field(out, "num_local_experts"), "8");
  EXPECT_EQ(field(out, "num_experts_per_tok"), "2");
}

TEST(HubConfig, StoredOutputIsNotTied) {
  GgufBuilder out = decoder("qwen2");
  out.tensor("output.weight", {64, 5}, kTypeBf16, std::string(640, '\0'));
  EXPECT_EQ(field(out, "tie_word_embeddings"), "false");
}

TEST(HubConfig, MissingKeyIsRefused) {
  GgufBuilder out;
  out.string("general.architecture", "llama").u32("llama.block_count", 1);
  EXPECT_EQ(config_of(out), "error: the key llama.embedding_length is missing; config.json needs one number");
}

TEST(HubConfig, NumberOfEachLayerIsOneNumberOrRefused) {
  const GgufBuilder builder;
  const auto with = [&](uint32_t a, uint32_t b) {
    GgufBuilder out = decoder("llama");
    const std::string both = builder.number(a) + builder.number(b);
    out.key("llama.expert_used_count", kArray, builder.array(kU32, 2, both));
    return out;
  };
  EXPECT_EQ(field(with(2, 2), "num_experts_per_tok"), "2");
  EXPECT_EQ(field(with(2, 3), "num_experts_per_tok"), "missing");
}

TEST(HubConfig, HostileNumbersAreRefused) {
  GgufBuilder further = decoder("qwen35");
  further.u32("qwen35.nextn_predict_layers", 9).u32("qwen35.ssm.conv_kernel", 4).u32("qwen35.ssm.state_size", 4);
  further.u32("qwen35.ssm.group_count", 0).u32("qwen35.ssm.time_step_rank", 0).u32("qwen35.ssm.inner_size", 0);
  EXPECT_EQ(config_of(further), "error: 9 of 2 blocks predict further tokens");
}

TEST(HubConfig, UsualScalingOfLlama3IsFoundByItsFactors) {
  GgufBuilder out = decoder("llama");
  out.tensor("rope_freqs.weight", {32}, kTypeF32,
             floats(mapping::llama3_factors({.factor = 32, .low = 1, .high = 4, .original = 8192}, 500'000, 64)));
  EXPECT_EQ(field(out, "rope_scaling"),
            R"({"rope_type":"llama3","factor":32.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
            R"("original_max_position_embeddings":8192})");
}

TEST(HubConfig, UnusualFactorsAreLeftOut) {
  GgufBuilder out = decoder("llama");
  out.tensor("rope_freqs.weight", {4}, kTypeF32, floats({1, 2, 3, 4}));
  EXPECT_EQ(field(out, "rope_scaling"), "missing");
  EXPECT_THAT(config_of(out), HasSubstr("_rope_scaling_missing"));
}

TEST(HubConfig, LongFactorsOfPhi3AreItsScaling) {
  GgufBuilder out = decoder("phi3");
  out.u32("phi3.rope.scaling.original_context_length", 128).u32("phi3.rope.dimension_count", 12);
  out.u32("phi3.attention.sliding_window", 0);
  out.tensor("rope_factors_long.weight", {2}, kTypeF32, floats({1, 1.5F}));
  out.tensor("rope_factors_short.weight", {2}, kTypeF32, floats({1, 1.1F}));
  EXPECT_EQ(field(out, "rope_scaling"), R"({"type":"longrope","long_factor":[1.0,1.5],"short_factor":[1.0,1.1]})");
  EXPECT_EQ(field(out, "partial_rotary_factor"), "0.75");
  EXPECT_EQ(field(out, "original_max_position_embeddings"), "128");
  EXPECT_EQ(field(out, "sliding_window"), "null");
}

TEST(HubConfig, HeadsOfFixedSizeAreStated) {
  EXPECT_EQ(field(decoder("qwen3"), "head_dim"), "16");
  EXPECT_EQ(field(decoder("qwen2"), "head_dim"), "missing");
}

TEST(HubConfig, GraniteHasItsScales) {
  GgufBuilder out = decoder("granite");
  out.f32("granite.attention.scale", 0.0625F).f32("granite.embedding_scale", 12).f32("granite.residual_scale", 0.22F);
  out.f32("granite.logit_scale", 8).u32("granite.rope.dimension_count", 16);
  EXPECT_EQ(field(out, "attention_multiplier"), "0.0625");
  EXPECT_EQ(field(out, "embedding_multiplier"), "12.0");
  EXPECT_EQ(field(out, "residual_multiplier"), "0.22");
  EXPECT_EQ(field(out, "logits_scaling"), "8.0");
}

TEST(HubConfig, DeepseekSplitsTheLengthsOfLatentAttention) {
  GgufBuilder out = decoder("deepseek2");
  out.u32("deepseek2.attention.key_length", 40).u32("deepseek2.attention.value_length", 32);
  out.u32("deepseek2.attention.key_length_mla", 24).u32("deepseek2.attention.value_length_mla", 20);
  out.u32("deepseek2.attention.kv_lora_rank", 32).u32("deepseek2.rope.dimension_count", 8);
  out.string("deepseek2.rope.scaling.type", "yarn").f32("deepseek2.rope.scaling.factor", 40);
  out.u32("deepseek2.rope.scaling.original_context_length", 64);
  out.f32("deepseek2.rope.scaling.yarn_log_multiplier", 0.0707F);
  EXPECT_EQ(field(out, "architectures"), R"(["DeepseekV2ForCausalLM"])");
  EXPECT_EQ(field(out, "qk_nope_head_dim"), "16");
  EXPECT_EQ(field(out, "qk_rope_head_dim"), "8");
  EXPECT_EQ(field(out, "v_head_dim"), "20");
  EXPECT_EQ(field(out, "q_lora_rank"), "null");
  EXPECT_EQ(field(out, "num_key_value_heads"), "4");
  EXPECT_EQ(field(out, "rope_scaling"),
            R"({"rope_type":"yarn","factor":40.0,"original_max_position_embeddings":64,"mscale":0.707,)"
            R"("mscale_all_dim":0.707})");
}

TEST(HubConfig, Gemma4HasFieldsByKindOfAttention) {
  const GgufBuilder builder;
  const auto numbers = [&](int32_t a, int32_t b) {
    return builder.array(kI32, 2, builder.number(a) + builder.number(b));
  };
  GgufBuilder out;
  out.string("general.architecture", "gemma4").u32("gemma4.block_count", 2).u32("gemma4.context_length", 512);
  out.u32("gemma4.embedding_length", 64).u32("gemma4.attention.head_count", 4);
  out.key("gemma4.feed_forward_length", kArray, numbers(128, 256));
  out.key("gemma4.attention.head_count_kv", kArray, numbers(2, 1));
  out.f32("gemma4.attention.layer_norm_rms_epsilon", 1e-6F).f32("gemma4.rope.freq_base", 1e6F);
  out.f32("gemma4.rope.freq_base_swa", 1e4F).u32("gemma4.attention.key_length", 64);
  out.u32("gemma4.attention.key_length_swa", 32).u32("gemma4.attention.sliding_window", 64);
  out.key("gemma4.attention.sliding_window_pattern", kArray, builder.array(kBool, 2, std::string_view("\1\0", 2)));
  out.tensor("token_embd.weight", {64, 5}, kTypeBf16, std::string(640, '\0'));
  out.tensor("rope_freqs.weight", {4}, kTypeF32, floats({1, 1e30F, 1e30F, 1e30F}));
  EXPECT_EQ(field(out, "intermediate_size"), "128");
  EXPECT_EQ(field(out, "use_double_wide_mlp"), "true");
  EXPECT_EQ(field(out, "num_key_value_heads"), "2");
  EXPECT_EQ(field(out, "num_global_key_value_heads"), "1");
  EXPECT_EQ(field(out, "head_dim"), "32");
  EXPECT_EQ(field(out, "global_head_dim"), "64");
  EXPECT_EQ(field(out, "layer_types"), R"(["sliding_attention","full_attention"])");
  EXPECT_EQ(field(out, "rope_parameters"),
            R"({"full_attention":{"rope_type":"proportional","rope_theta":1000000.0,"partial_rotary_factor":0.25},)"
            R"("sliding_attention":{"rope_type":"default","rope_theta":10000.0}})");
}

TEST(HubConfig, UnknownArchitectureIsRefused) {
  GgufBuilder out;
  EXPECT_THAT(config_of(out.string("general.architecture", "rwkv7")), HasSubstr("error: "));
}

TEST(HubConfig, CheckReadsNoTensor) {
  GgufBuilder out = decoder("llama");
  out.tensor("rope_freqs.weight", {4}, kTypeBf16, std::string(8, '\0'));
  EXPECT_TRUE(mapping::check_hub_config(read_well(out.build())));
}

}  // namespace
}  // namespace weightfs::hub_config_test
