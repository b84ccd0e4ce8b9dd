// The keys of each architecture by config.json, in the order of llama.cpp's converter, and what is refused.
#include "formats/mapping/model_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/mapping/repository_support.h"

namespace weightfs::model_keys_test {
namespace {

using mapping::Keys;
using testing::Contains;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The keys of a config.json; or the refusal, as one line.
std::vector<std::string> keys_of(const std::string& config, test::Files files = {},
                                 const std::vector<std::string>& tensors = {}) {
  files["config.json"] = config;
  const auto repository = test::hub_repository(std::move(files), "tiny", tensors);
  if (repository == nullptr) return {};
  Keys keys;
  const auto added = mapping::add_hyperparameters(*repository, 32, keys);
  return added ? test::lines_of(keys) : std::vector<std::string>{added.error().message};
}

// A config.json of this class: fields that most have, and `more`, which replaces them.
std::string config(const std::string& class_name, const std::string& more = "") {
  return fmt::format(R"({{"architectures": ["{}"], "hidden_size": 64, "intermediate_size": 128,
      "max_position_embeddings": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
      "rms_norm_eps": 0.5, "vocab_size": 710{}{}}})",
                     class_name, more.empty() ? "" : ", ", more);
}

std::string refusal(const std::string& class_name, const std::string& more) {
  const std::vector<std::string> lines = keys_of(config(class_name, more));
  return lines.size() == 1 ? lines.front() : fmt::format("{} keys", lines.size());
}

std::string without(std::string text, const std::string& field) {
  const size_t begin = text.find('"' + field + '"');
  const size_t comma = text.find(',', begin);
  return text.erase(begin, comma + 1 - begin);
}

// The lines that each architecture begins with, with this prefix.
std::vector<std::string> with_sizes(const std::string& prefix, std::vector<std::string> rest) {
  std::vector<std::string> out = {
      prefix + ".block_count u32 2",          prefix + ".context_length u32 256",
      prefix + ".embedding_length u32 64",    prefix + ".feed_forward_length u32 128",
      prefix + ".attention.head_count u32 4", prefix + ".attention.head_count_kv u32 2",
  };
  for (std::string& line : rest) out.push_back(line.starts_with("general.") ? std::move(line) : prefix + "." + line);
  out.push_back("general.quantization_version u32 2");
  return out;
}

const std::string kHeadDim = R"("head_dim": 16)";
const std::string kRms = "attention.layer_norm_rms_epsilon f32 0.5";
const std::string kKey = "attention.key_length u32 16";
const std::string kValue = "attention.value_length u32 16";
const std::string kType = "general.file_type u32 32";

TEST(ModelKeys, Llama) {
  EXPECT_THAT(
      keys_of(config("LlamaForCausalLM", R"("head_dim": 16, "rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3",
              "factor": 8.0, "original_max_position_embeddings": 64})")),
      ElementsAreArray(with_sizes("llama", {"rope.freq_base f32 500000", kRms, kKey, kValue, kType,
                                            "vocab_size u32 710", "rope.dimension_count u32 16"})));
}

TEST(ModelKeys, LengthOfAHeadFollowsFromTheWidth) {
  EXPECT_THAT(
      keys_of(config("LlamaForCausalLM")),
      ElementsAreArray(with_sizes("llama", {kRms, kType, "vocab_size u32 710", "rope.dimension_count u32 16"})));
}

TEST(ModelKeys, ScalingOfRope) {
  const auto llama = [](const std::string& rope) { return keys_of(config("LlamaForCausalLM", rope)); };
  EXPECT_THAT(llama(R"("rope_scaling": {"type": "linear", "factor": 4})"),
              testing::IsSupersetOf({"llama.rope.scaling.type str linear", "llama.rope.scaling.factor f32 4"}));
  EXPECT_THAT(llama(R"("rope_parameters": {"rope_type": "yarn", "rope_theta": 20000, "factor": 4,
                       "original_max_position_embeddings": 64, "beta_fast": 32, "attn_factor": 0.5})"),
              testing::IsSupersetOf({"llama.rope.scaling.type str yarn", "llama.rope.scaling.factor f32 4",
                                     "llama.rope.scaling.original_context_length u32 64",
                                     "llama.rope.scaling.yarn_attn_factor f32 0.5",
                                     "llama.rope.scaling.yarn_beta_fast f32 32", "llama.rope.freq_base f32 20000"}));
  EXPECT_THAT(llama(R"("rope_scaling": {"type": "dynamic", "factor": 4})"), Not(Contains(HasSubstr("rope.scaling"))));
  EXPECT_EQ(refusal("LlamaForCausalLM", R"("rope_scaling": {"type": "longrope"})"),
            "config.json: llama has no rope_type longrope");
  EXPECT_EQ(refusal("Qwen2ForCausalLM", R"("rope_scaling": {"type": "llama3"})"),
            "config.json: qwen2 has no rope_type llama3");
  EXPECT_EQ(refusal("LlamaForCausalLM", R"("rope_scaling": {"type": "yarn", "factor": 4})"),
            "config.json lacks rope_scaling.original_max_position_embeddings");
  EXPECT_EQ(refusal("LlamaForCausalLM", R"("rope_scaling": {"type": "linear"})"),
            "config.json lacks rope_scaling.factor");
}

TEST(ModelKeys, MixtralHasItsClassDefaults) {
  EXPECT_THAT(keys_of(config("MixtralForCausalLM")),
              ElementsAreArray(with_sizes(
                  "llama", {"rope.freq_base f32 1000000", kRms, "expert_count u32 8", "expert_used_count u32 2", kType,
                            "vocab_size u32 710", "rope.dimension_count u32 16"})));
}

TEST(ModelKeys, Granite) {
  EXPECT_THAT(keys_of(config("GraniteForCausalLM", R"("head_dim": 99, "attention_multiplier": 0.25,
                             "embedding_multiplier": 12, "residual_multiplier": 0.5, "logits_scaling": 8)")),
              ElementsAreArray(with_sizes("granite", {kRms, kType, "vocab_size u32 710", "rope.dimension_count u32 16",
                                                      "attention.scale f32 0.25", "embedding_scale f32 12",
                                                      "residual_scale f32 0.5", "logit_scale f32 8"})));
  EXPECT_THAT(keys_of(config("GraniteForCausalLM")), Contains("granite.logit_scale f32 1"));  // llama.cpp needs it
}

TEST(ModelKeys, SmolLM3) {
  EXPECT_THAT(keys_of(config("SmolLM3ForCausalLM", R"("no_rope_layers": [1, 1])")),
              ElementsAreArray(with_sizes("smollm3", {"rope.freq_base f32 2000000", kRms, kType, "vocab_size u32 710",
                                                      "rope.dimension_count u32 16"})));
}

TEST(ModelKeys, Mistral3) {
  const std::string text = R"("model_type": "ministral3", "head_dim": 16, "rope_parameters": {"rope_type": "yarn",
      "factor": 16, "original_max_position_embeddings": 64, "mscale_all_dim": 1, "llama_4_scaling_beta": 0.5})";
  const auto expected =
      with_sizes("mistral3", {"rope.scaling.type str yarn", "rope.scaling.factor f32 16",
                              "rope.scaling.original_context_length u32 64", kRms, kKey, kValue, kType,
                              "vocab_size u32 710", "rope.dimension_count u32 16",
                              "rope.scaling.yarn_log_multiplier f32 1", "attention.temperature_scale f32 0.5"});
  EXPECT_THAT(keys_of(config("Ministral3ForCausalLM", text)), ElementsAreArray(expected));
  const std::string inside = config("", text);
  EXPECT_THAT(keys_of(R"({"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3",
                         "text_config": )" +
                      without(inside, "architectures") + "}"),
              ElementsAreArray(expected));
  EXPECT_EQ(refusal("Ministral3ForCausalLM", R"("model_type": "mistral4")"),
            "no architecture of llama.cpp is known for model_type mistral4");
}

TEST(ModelKeys, Qwen) {
  EXPECT_THAT(keys_of(config("Qwen2ForCausalLM", R"("rope_theta": 1e6, "sliding_window": 128)")),
              ElementsAreArray(with_sizes("qwen2", {"rope.freq_base f32 1000000", kRms, kType})));
  EXPECT_THAT(keys_of(config("Qwen3ForCausalLM", kHeadDim)),
              ElementsAreArray(with_sizes("qwen3", {kRms, kKey, kValue, kType})));
  EXPECT_THAT(keys_of(config("Qwen3ForCausalLM")), Contains("qwen3.attention.key_length u32 128"));
  EXPECT_THAT(keys_of(config("Qwen2MoeForCausalLM", R"("num_experts": 4, "num_experts_per_tok": 2,
                             "moe_intermediate_size": 96, "shared_expert_intermediate_size": 100)")),
              ElementsAreArray(with_sizes(
                  "qwen2moe", {kRms, "expert_count u32 4", "expert_used_count u32 2", kType,
                               "expert_feed_forward_length u32 96", "expert_shared_feed_forward_length u32 100"})));
  EXPECT_THAT(keys_of(config("Qwen3MoeForCausalLM", R"("head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2,
                             "moe_intermediate_size": 96)")),
              ElementsAreArray(with_sizes("qwen3moe", {kRms, "expert_count u32 4", "expert_used_count u32 2", kKey,
                                                       kValue, kType, "expert_feed_forward_length u32 96"})));
}

const std::string kQwen35 = R"("head_dim": 16, "layer_types": ["linear_attention", "full_attention"],
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 9, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "mtp_num_hidden_layers": 1)";
const std::vector<std::string> kStateSpace = {"ssm.conv_kernel u32 4", "ssm.state_size u32 8", "ssm.group_count u32 2",
                                              "ssm.time_step_rank u32 4", "ssm.inner_size u32 36"};

TEST(ModelKeys, Qwen35) {
  std::vector<std::string> rest = {kRms, kKey, kValue, kType};
  rest.insert(rest.end(), kStateSpace.begin(), kStateSpace.end());
  for (const char* const line : {"attention.recurrent_layers bool[] true false", "full_attention_interval u32 4",
                                 "rope.dimension_count u32 4", "rope.dimension_sections i32[] 11 11 10 0"})
    rest.emplace_back(line);
  EXPECT_THAT(keys_of(config("Qwen3_5ForCausalLM", kQwen35)), ElementsAreArray(with_sizes("qwen35", rest)));
}

// The layers for multi-token prediction count if the repository has them: they are often stated, but removed.
TEST(ModelKeys, Qwen35WithTensorsOfMultiTokenPrediction) {
  const auto lines = keys_of(config("Qwen3_5ForCausalLM", kQwen35), {}, {"mtp.fc.weight", "mtp.layers.0.x.weight"});
  EXPECT_THAT(lines, testing::IsSupersetOf({"qwen35.block_count u32 3", "qwen35.nextn_predict_layers u32 1",
                                            "qwen35.attention.recurrent_layers bool[] true false false"}));
}

TEST(ModelKeys, Qwen35Moe) {
  const std::string moe = R"("num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 96,
      "rope_parameters": {"mrope_section": [1, 1], "partial_rotary_factor": 0.5}, )";
  const auto lines = keys_of(without(config("Qwen3_5MoeForCausalLM", moe + kQwen35), "intermediate_size"));
  EXPECT_THAT(lines, Contains("qwen35moe.rope.dimension_sections i32[] 1 1 0 0"));
  EXPECT_THAT(lines, Contains("qwen35moe.rope.dimension_count u32 8"));
  EXPECT_THAT(lines, Contains("qwen35moe.expert_shared_feed_forward_length u32 512"));
  EXPECT_THAT(lines, Not(Contains(StartsWith("qwen35moe.feed_forward_length"))));
}

TEST(ModelKeys, Gemma2HasAListOfItsOwn) {
  EXPECT_THAT(keys_of(config("Gemma2ForCausalLM", kHeadDim)),
              ElementsAre("gemma2.context_length u32 256", "gemma2.embedding_length u32 64", "gemma2.block_count u32 2",
                          "gemma2.feed_forward_length u32 128", "gemma2.attention.head_count u32 4",
                          "gemma2.attention.head_count_kv u32 2", "gemma2.attention.layer_norm_rms_epsilon f32 0.5",
                          "gemma2.attention.key_length u32 16", "gemma2.attention.value_length u32 16", kType,
                          "gemma2.attn_logit_softcapping f32 50", "gemma2.final_logit_softcapping f32 30",
                          "gemma2.attention.sliding_window u32 4096", "general.quantization_version u32 2"));
}

TEST(ModelKeys, Gemma3) {
  EXPECT_THAT(
      keys_of(config("Gemma3ForCausalLM", R"("rope_local_base_freq": 10000, "sliding_window": 32)")),
      ElementsAreArray(with_sizes("gemma3", {"rope.freq_base_swa f32 10000", kRms, kType,
                                             "attention.key_length u32 256", "attention.value_length u32 256",
                                             "rope.freq_base f32 1000000", "attention.sliding_window u32 32"})));
  EXPECT_EQ(refusal("Gemma3ForCausalLM", R"("attn_logit_softcapping": 50)"),
            "config.json: gemma3 has no attn_logit_softcapping");
}

// Gemma 3 of 4B to 27B: transformers stores what differs from the defaults.
TEST(ModelKeys, Gemma3ThatStatesAlmostNothing) {
  EXPECT_THAT(
      keys_of(R"({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config":
                        {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "sliding_window": 1024,
                         "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}, "vision_config": {"hidden_size": 9}})"),
      ElementsAre("gemma3.block_count u32 2", "gemma3.context_length u32 131072", "gemma3.embedding_length u32 64",
                  "gemma3.feed_forward_length u32 128", "gemma3.attention.head_count u32 8",
                  "gemma3.attention.head_count_kv u32 4", "gemma3.rope.scaling.type str linear",
                  "gemma3.rope.scaling.factor f32 8", "gemma3.rope.freq_base f32 1000000",
                  "gemma3.rope.freq_base_swa f32 10000", "gemma3.attention.layer_norm_rms_epsilon f32 1e-06",
                  "gemma3.attention.key_length u32 256", "gemma3.attention.value_length u32 256", kType,
                  "gemma3.attention.sliding_window u32 1024", "general.quantization_version u32 2"));
}

TEST(ModelKeys, Gemma4) {
  const auto lines = keys_of(config("Gemma4ForCausalLM", R"("head_dim": 16, "global_head_dim": 32,
      "num_global_key_value_heads": 1, "num_kv_shared_layers": 1, "hidden_size_per_layer_input": 8,
      "use_double_wide_mlp": true, "sliding_window": 32, "final_logit_softcapping": 30,
      "layer_types": ["sliding_attention", "full_attention"])"));
  EXPECT_THAT(
      lines,
      ElementsAre("gemma4.block_count u32 2", "gemma4.context_length u32 256", "gemma4.embedding_length u32 64",
                  "gemma4.feed_forward_length i32[] 128 256", "gemma4.attention.head_count u32 4",
                  "gemma4.attention.head_count_kv i32[] 2 1", "gemma4.rope.freq_base f32 1000000",
                  "gemma4.rope.freq_base_swa f32 10000", "gemma4.attention.layer_norm_rms_epsilon f32 0.5",
                  "gemma4.attention.key_length u32 32", "gemma4.attention.value_length u32 32", kType,
                  "gemma4.final_logit_softcapping f32 30", "gemma4.attention.sliding_window u32 32",
                  "gemma4.attention.shared_kv_layers u32 1", "gemma4.embedding_length_per_layer_input u32 8",
                  "gemma4.attention.sliding_window_pattern bool[] true false", "gemma4.attention.key_length_swa u32 16",
                  "gemma4.attention.value_length_swa u32 16", "gemma4.rope.dimension_count u32 32",
                  "gemma4.rope.dimension_count_swa u32 16", "general.quantization_version u32 2"));
}

TEST(ModelKeys, Gemma4InTheFormOfTransformers5) {
  EXPECT_THAT(
      keys_of(config("Gemma4ForCausalLM", R"("head_dim": 16,
                             "per_layer_config": {"1": {"head_dim": 48, "num_key_value_heads": 1}})")),
      testing::IsSupersetOf({"gemma4.attention.key_length u32 48", "gemma4.attention.head_count_kv i32[] 2 1"}));
}

TEST(ModelKeys, GptOss) {
  EXPECT_THAT(keys_of(config("GptOssForCausalLM", R"("head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2,
                             "sliding_window": 16, "rope_theta": 150000, "rope_scaling": {"rope_type": "yarn",
                             "factor": 32, "beta_fast": 32, "beta_slow": 1, "truncate": false,
                             "original_max_position_embeddings": 64})")),
              ElementsAreArray(with_sizes(
                  "gpt-oss", {"rope.scaling.type str yarn", "rope.scaling.factor f32 32",
                              "rope.scaling.original_context_length u32 64", "rope.scaling.yarn_beta_fast f32 32",
                              "rope.scaling.yarn_beta_slow f32 1", "rope.freq_base f32 150000", kRms,
                              "expert_count u32 4", "expert_used_count u32 2", kKey, kValue, kType,
                              "attention.sliding_window u32 16", "expert_feed_forward_length u32 128"})));
}

const std::string kPhi3 = R"("original_max_position_embeddings": 64, "rope_theta": 10000)";

TEST(ModelKeys, Phi3HasAListOfItsOwn) {
  EXPECT_THAT(keys_of(config("Phi3ForCausalLM", kPhi3)),
              ElementsAre("phi3.context_length u32 256", "phi3.rope.scaling.original_context_length u32 64",
                          "phi3.embedding_length u32 64", "phi3.feed_forward_length u32 128", "phi3.block_count u32 2",
                          "phi3.attention.head_count u32 4", "phi3.attention.head_count_kv u32 2",
                          "phi3.attention.layer_norm_rms_epsilon f32 0.5", "phi3.rope.dimension_count u32 16",
                          "phi3.rope.freq_base f32 10000", kType, "phi3.attention.sliding_window u32 0",
                          "general.quantization_version u32 2"));
}

TEST(ModelKeys, Olmo) {
  EXPECT_THAT(keys_of(config("Olmo2ForCausalLM")), ElementsAreArray(with_sizes("olmo2", {kRms, kType})));
  EXPECT_THAT(
      keys_of(config("Olmo3ForCausalLM", R"("sliding_window": 32,
                             "layer_types": ["full_attention", "sliding_attention"])")),
      ElementsAreArray(with_sizes("olmo2", {"rope.freq_base f32 500000", kRms, kType, "attention.sliding_window u32 32",
                                            "attention.sliding_window_pattern bool[] false true"})));
}

TEST(ModelKeys, Glm4) {
  EXPECT_THAT(keys_of(config("Glm4ForCausalLM", R"("head_dim": 16, "partial_rotary_factor": 0.25)")),
              ElementsAreArray(with_sizes("glm4", {kRms, kKey, kValue, kType, "rope.dimension_count u32 4"})));
  EXPECT_EQ(refusal("Glm4ForCausalLM", R"("rope_scaling": {"mrope_section": [1, 2, 3]})"),
            "config.json: glm4 has no mrope_section");
}

const std::string kBert = R"({"architectures": ["BertModel"], "hidden_size": 64, "intermediate_size": 128,
    "max_position_embeddings": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "layer_norm_eps": 0.25})";

TEST(ModelKeys, BertWithThePoolingOfItsModules) {
  const test::Files files = {
      {"modules.json", R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
                           {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])"},
      {"1_Pooling/config.json", R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})"}};
  EXPECT_THAT(keys_of(kBert, files),
              ElementsAre("bert.block_count u32 2", "bert.context_length u32 256", "bert.embedding_length u32 64",
                          "bert.feed_forward_length u32 128", "bert.attention.head_count u32 4",
                          "bert.attention.layer_norm_epsilon f32 0.25", kType, "bert.attention.causal bool false",
                          "bert.pooling_type u32 2", "general.quantization_version u32 2"));
  test::Files other = files;
  other["1_Pooling/config.json"] = R"({"pooling_mode_max_tokens": true})";
  EXPECT_THAT(keys_of(kBert, other), ElementsAre("1_Pooling/config.json: the pooling is not mean, cls or lasttoken"));
}

TEST(ModelKeys, BertWithLabels) {
  std::string labelled = kBert;
  labelled.insert(1, R"("id2label": {"10": "C", "0": "A", "2": "B"}, )");
  EXPECT_THAT(keys_of(labelled), Contains("bert.classifier.output_labels str[] A B C"));
}

TEST(ModelKeys, DeepSeek) {
  const std::string mla = R"("kv_lora_rank": 32, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
      "v_head_dim": 12, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2,
      "moe_intermediate_size": 96, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "norm_topk_prob": true,
      "routed_scaling_factor": 2.5, "rope_scaling": {"type": "yarn", "factor": 4, "mscale_all_dim": 10,
      "original_max_position_embeddings": 64})";
  std::vector<std::string> expected = with_sizes("deepseek2", {"rope.scaling.type str yarn",
                                                               "rope.scaling.factor f32 4",
                                                               "rope.scaling.original_context_length u32 64",
                                                               kRms,
                                                               "expert_count u32 4",
                                                               "expert_used_count u32 2",
                                                               "expert_group_count u32 1",
                                                               "expert_group_used_count u32 1",
                                                               "expert_gating_func u32 2",
                                                               kType,
                                                               "leading_dense_block_count u32 1",
                                                               "vocab_size u32 710",
                                                               "attention.q_lora_rank u32 24",
                                                               "attention.kv_lora_rank u32 32",
                                                               "attention.key_length u32 40",
                                                               "attention.value_length u32 32",
                                                               "attention.key_length_mla u32 24",
                                                               "attention.value_length_mla u32 12",
                                                               "expert_feed_forward_length u32 96",
                                                               "expert_shared_count u32 1",
                                                               "expert_weights_scale f32 2.5",
                                                               "expert_weights_norm bool true",
                                                               "rope.dimension_count u32 8",
                                                               "rope.scaling.yarn_log_multiplier f32 1"});
  expected[5] = "deepseek2.attention.head_count_kv u32 1";
  EXPECT_THAT(keys_of(config("DeepseekV3ForCausalLM", mla)), ElementsAreArray(expected));
  // The default of V3 is not that of V2.
  EXPECT_THAT(keys_of(config("DeepseekV2ForCausalLM", mla)), Not(Contains(StartsWith("deepseek2.expert_gating_func"))));
  EXPECT_EQ(refusal("DeepseekV3ForCausalLM", mla + R"(, "scoring_func": "tanh")"),
            "config.json: scoring_func tanh is not known");
}

// llama.cpp ends the process for a number of experts used where there are none.
TEST(ModelKeys, DenseModelWithANumberOfExpertsUsed) {
  EXPECT_THAT(
      keys_of(config("LlamaForCausalLM", R"("num_experts_per_tok": 2, "n_group": 4)")),
      ElementsAreArray(with_sizes("llama", {kRms, kType, "vocab_size u32 710", "rope.dimension_count u32 16"})));
}

struct Refused {
  const char* more;
  const char* message;
};

TEST(ModelKeys, ImpossibleNumbersAreRefused) {
  for (const Refused& one : {
           Refused{R"("num_attention_heads": 0)", "num_attention_heads is not an integer from 1 to 2^32 - 1"},
           Refused{R"("num_attention_heads": -4)", "num_attention_heads is not an integer from 1 to 2^32 - 1"},
           Refused{R"("num_attention_heads": "4")", "num_attention_heads is not an integer from 1 to 2^32 - 1"},
           Refused{R"("num_attention_heads": [4, 4])", "num_attention_heads is not an integer from 1 to 2^32 - 1"},
           Refused{R"("num_attention_heads": 2.5)", "num_attention_heads is not an integer from 1 to 2^32 - 1"},
           Refused{R"("num_attention_heads": 5, "num_key_value_heads": 5)",
                   "hidden_size 64 is not a multiple of num_attention_heads 5"},
           Refused{R"("num_key_value_heads": 3)", "num_attention_heads 4 is not a multiple of num_key_value_heads 3"},
           Refused{R"("num_key_value_heads": 0)", "num_key_value_heads is not an integer from 1 to 2^32 - 1"},
           Refused{R"("hidden_size": 9223372036854775808)", "hidden_size is not an integer from 1 to 2^32 - 1"},
           Refused{R"("num_hidden_layers": 513)", "num_hidden_layers is 513, the maximum is 512"},
           Refused{R"("num_hidden_layers": 18446744073709551615)", "num_hidden_layers is not an integer"},
           Refused{R"("max_position_embeddings": 4294967296)", "max_position_embeddings is not an integer"},
           Refused{R"("head_dim": 65537)", "head_dim is 65537, the maximum is 65536"},
           Refused{R"("rms_norm_eps": -1)", "rms_norm_eps is not a number of float32 from 0 on"},
           Refused{R"("rms_norm_eps": 1e39)", "rms_norm_eps is not a number of float32 from 0 on"},
           Refused{R"("rope_theta": 0)", "rope_theta is not a number of float32 from 1 on"},
           Refused{R"("num_local_experts": 1025, "num_experts_per_tok": 2)", "1025 experts, the maximum is 1024"},
           Refused{R"("num_local_experts": 4, "num_experts_per_tok": 5)", "5 of 4 experts cannot be used"},
           Refused{R"("num_local_experts": 4)", "config.json lacks num_experts_per_tok"},
           Refused{R"("num_local_experts": 4, "num_experts_per_tok": 2, "n_group": 3, "topk_group": 1)",
                   "4 experts cannot be in 3 groups"},
           Refused{R"("rope_scaling": "linear")", "rope_scaling is not an object"},
           Refused{R"("rope_scaling": {"mrope_section": [-1]})", "mrope_section is not a list of sizes"},
       })
    EXPECT_THAT(refusal("LlamaForCausalLM", one.more), HasSubstr(one.message)) << one.more;
}

TEST(ModelKeys, ListsOfOtherLengthsThanTheLayersAreRefused) {
  EXPECT_EQ(refusal("Olmo3ForCausalLM", R"("layer_types": ["full_attention"])"),
            "config.json: layer_types has 1 entries for 2 layers");
  EXPECT_EQ(refusal("Gemma4ForCausalLM", R"("num_kv_shared_layers": 3)"),
            "config.json: 3 of 2 layers cannot share keys");
}

TEST(ModelKeys, AnotherOrderOfLayersWithoutRotationIsRefused) {
  EXPECT_EQ(refusal("SmolLM3ForCausalLM", R"("no_rope_layers": [1, 0])"),
            "config.json: no_rope_layers is not each fourth layer, as in llama.cpp");
}

TEST(ModelKeys, AnotherOrderOfLayersIsAKey) {
  const std::string sliding_last = R"("layer_types": ["full_attention", "sliding_attention"], "head_dim": 16)";
  EXPECT_THAT(keys_of(config("Gemma2ForCausalLM", sliding_last)),
              Contains("gemma2.attention.sliding_window_pattern bool[] false true"));
  const std::string usual = R"("layer_types": ["sliding_attention", "full_attention"], "head_dim": 16)";
  EXPECT_THAT(keys_of(config("Gemma2ForCausalLM", usual)), Not(Contains(HasSubstr("pattern"))));
}

// null is none, not the default of the class.
TEST(ModelKeys, NullIsNone) {
  EXPECT_THAT(keys_of(config("Olmo3ForCausalLM", R"("sliding_window": null)")), Not(Contains(HasSubstr("window"))));
  EXPECT_THAT(keys_of(config("Qwen3ForCausalLM", R"("head_dim": null)")), Not(Contains(HasSubstr("key_length"))));
  EXPECT_EQ(refusal("Gemma2ForCausalLM", R"("attn_logit_softcapping": null)"),
            "config.json lacks attn_logit_softcapping");
}

TEST(ModelKeys, MissingFieldsAreRefused) {
  const std::string llama = config("LlamaForCausalLM");
  for (const char* const field : {"num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size"})
    EXPECT_THAT(keys_of(without(llama, field)), ElementsAre(fmt::format("config.json lacks {}", field)));
  const std::string without_class = config("IQuestCoderForCausalLM");
  for (const char* const field : {"rms_norm_eps", "max_position_embeddings"}) {
    EXPECT_THAT(keys_of(without(without_class, field)), ElementsAre(fmt::format("config.json lacks {}", field)));
    EXPECT_THAT(keys_of(without(llama, field)), testing::SizeIs(11)) << field;  // the class of transformers has it
  }
}

}  // namespace
}  // namespace weightfs::model_keys_test
