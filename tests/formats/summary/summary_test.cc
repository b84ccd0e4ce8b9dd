// Each field of a summary, with the file or key that it comes from. Numbers of published models are those of their
// configurations and cards.
#include "formats/summary/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "formats/model.h"
#include "tests/builders/gguf_builder.h"
#include "tests/builders/named_tensors.h"
#include "tests/support/memory_folder.h"

namespace weightfs::summary_test {
namespace {

using summary::Role;
using summary::Summarised;
using summary::Summary;
using test::Files;
using test::GgufBuilder;
using test::NamedTensors;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Summarised summarised(const NamedTensors& tensors, Files files, std::string format = "safetensors") {
  Model model;
  model.format = std::move(format);
  model.tensors.append(tensors.tensors);
  model.parts.push_back({"model.safetensors", Later<SourcePtr>::of(in_memory(""))});
  model.beside = std::make_shared<test::MemoryFolder>(std::move(files));
  return summary::summarise(model);
}

Summary summary_of(const NamedTensors& tensors, Files files, std::string format = "safetensors") {
  return summarised(tensors, std::move(files), std::move(format)).summary;
}

Summary by_config(const std::string& config) { return summary_of({}, {{"config.json", config}}); }

Summary of_gguf(const GgufBuilder& gguf, const std::string& name = "m.gguf") {
  const auto model = read_model({.name = name, .bytes = in_memory(gguf.build())});
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  return model ? summary::summarise(*model).summary : Summary();
}

std::vector<Role> roles_of(const NamedTensors& tensors, Files files = {}) {
  std::vector<Role> out;
  for (const summary::Counted& one : summarised(tensors, std::move(files)).tensors) out.push_back(one.role);
  return out;
}

// A llama of two layers: hidden 32, 4 heads of 8, 2 of keys and values.
NamedTensors llama(std::string_view dtype = "bfloat16") {
  NamedTensors out;
  out.add("model.embed_tokens.weight", dtype, {64, 32});
  for (const char* const layer : {"model.layers.0.", "model.layers.1."}) {
    out.add(std::string(layer) + "self_attn.q_proj.weight", dtype, {32, 32});
    out.add(std::string(layer) + "self_attn.k_proj.weight", dtype, {16, 32});
    out.add(std::string(layer) + "mlp.up_proj.weight", dtype, {48, 32});
  }
  return out;
}

constexpr uint64_t kLlama = 64 * 32 + 2 * (32 * 32 + 16 * 32 + 48 * 32);

const std::string kLlamaConfig = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 32,
    "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
    "max_position_embeddings": 4096, "vocab_size": 64, "rope_theta": 500000.0,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 512}})";

TEST(Summary, ConfigOfTransformersGivesTheArchitecture) {
  const Summary s = summary_of(llama(), {{"config.json", kLlamaConfig}});
  EXPECT_EQ(s.kind, "causal-lm");
  EXPECT_EQ(s.architecture, "llama");
  EXPECT_EQ(s.architecture_class, "LlamaForCausalLM");
  EXPECT_EQ(s.layers, 2u);
  EXPECT_EQ(s.hidden_size, 32u);
  EXPECT_EQ(s.ffn_size, 48u);
  EXPECT_EQ(s.heads, 4u);
  EXPECT_EQ(s.kv_heads, 2u);
  EXPECT_EQ(s.head_dim, 8u);
  EXPECT_EQ(s.attention, "GQA");
  EXPECT_EQ(s.context_length, 4096u);  // stated after scaling
  EXPECT_EQ(s.rope.type, "llama3");
  EXPECT_EQ(s.rope.factor, 8);
  EXPECT_EQ(s.rope.original_context_length, 512u);
  EXPECT_EQ(s.rope.base, 500000);
  EXPECT_EQ(s.vocabulary_size, 64u);
  EXPECT_EQ(s.tied_embeddings, true);  // no head is stored
  EXPECT_EQ(s.kv_cache->bytes_per_token, 2u * 2 * 2 * 16);
  EXPECT_EQ(s.kv_cache->bytes_at_context, 4096u * 128);
  EXPECT_THAT(s.weight_files, ElementsAre("model.safetensors"));
  EXPECT_THAT(s.warnings, IsEmpty());
}

TEST(Summary, ParametersAreElements) {
  const Summary s = summary_of(llama(), {{"config.json", kLlamaConfig}});
  EXPECT_EQ(s.parameters, kLlama);
  EXPECT_EQ(s.parameters_embedding, 64u * 32);
  EXPECT_EQ(s.weight_bytes, 2 * kLlama);
  EXPECT_EQ(s.bits_per_weight, 16);
  EXPECT_EQ(s.dtype, "bfloat16");
  EXPECT_FALSE(s.quantisation);
  EXPECT_FALSE(s.parameters_active || s.parameters_mtp || s.parameters_vision || s.buffer_elements);
}

TEST(Summary, NamesOfOtherFamiliesAreSynonyms) {
  const Summary gpt2 =
      by_config(R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024})");
  EXPECT_EQ(gpt2.layers, 12u);
  EXPECT_EQ(gpt2.hidden_size, 768u);
  EXPECT_EQ(gpt2.ffn_size, 3072u);
  EXPECT_EQ(gpt2.context_length, 1024u);
  EXPECT_EQ(gpt2.attention, "MHA");
  EXPECT_EQ(
      by_config(
          R"({"model_type": "falcon", "num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 8, "multi_query": true})")
          .kv_heads,
      1u);
  EXPECT_EQ(
      by_config(
          R"({"model_type": "mpt", "n_layers": 1, "d_model": 64, "n_heads": 8, "attn_config": {"kv_n_heads": 2, "alibi": true}})")
          .rope.type,
      "alibi");
  EXPECT_EQ(
      by_config(
          R"({"model_type": "roberta", "num_hidden_layers": 1, "max_position_embeddings": 514, "pad_token_id": 1})")
          .context_length,
      512u);
}

TEST(Summary, OnlyYarnIsStatedBeforeScaling) {
  const auto context = [](const std::string& scaling, const std::string& stated) {
    return by_config(R"({"model_type": "qwen2", "num_hidden_layers": 1, "max_position_embeddings": )" + stated +
                     R"(, "rope_scaling": )" + scaling + "}")
        .context_length;
  };
  const std::string yarn = R"({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768})";
  EXPECT_EQ(context(yarn, "32768"), 131072u);
  EXPECT_EQ(context(yarn, "163840"), 163840u);
  EXPECT_EQ(context(R"({"type": "linear", "factor": 8.0})", "131072"), 131072u);
}

TEST(Summary, TextModelOfSeveralObjectsCounts) {
  const Summary s = by_config(
      R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 34, "hidden_size": 2560},
                                  "vision_config": {"image_size": 896, "patch_size": 14, "num_hidden_layers": 27}})");
  EXPECT_EQ(s.kind, "vision-language");
  EXPECT_EQ(s.architecture, "gemma3");
  EXPECT_EQ(s.layers, 34u);
  EXPECT_EQ(s.image_size, 896u);
  EXPECT_EQ(s.patch_size, 14u);
}

TEST(Summary, KindsComeFromTypesClassesAndFiles) {
  const auto kind = [](const std::string& config) { return by_config(config).kind; };
  EXPECT_EQ(kind(R"({"model_type": "bert"})"), "encoder");
  EXPECT_EQ(kind(R"({"model_type": "bert", "is_decoder": true})"), "causal-lm");
  EXPECT_EQ(kind(R"({"model_type": "t5"})"), "encoder-decoder");
  EXPECT_EQ(kind(R"({"model_type": "whisper"})"), "speech");
  EXPECT_EQ(kind(R"({"model_type": "vit"})"), "vision");
  EXPECT_EQ(kind(R"({"model_type": "new", "architectures": ["NewForCausalLM"]})"), "causal-lm");
  EXPECT_EQ(kind(R"({"model_type": "new", "is_encoder_decoder": true})"), "encoder-decoder");
  EXPECT_EQ(kind(R"({"settings": "of a program"})"), "empty");
  EXPECT_EQ(summary_of({}, {{"config.json", R"({"model_type": "bert"})"}, {"modules.json", "[]"}}).kind, "embedding");
}

TEST(Summary, EncoderHasNoCacheAndDecoderOfTwoHasItsOwn) {
  EXPECT_FALSE(
      by_config(R"({"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16})")
          .kv_cache);
  const Summary t5 = by_config(
      R"({"model_type": "t5", "is_encoder_decoder": true, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 2, "d_kv": 8, "d_model": 16})");
  EXPECT_EQ(t5.encoder_layers, 3u);
  EXPECT_EQ(t5.layers, 2u);
  EXPECT_EQ(t5.kv_cache->bytes_per_token, 2u * 2 * 2 * 16);
}

TEST(Summary, CompressedCacheIsThatOfItsRank) {
  // DeepSeek-V3: 61 layers, 512 + 64 numbers.
  const Summary s = by_config(
      R"({"model_type": "deepseek_v3", "num_hidden_layers": 61, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64})");
  EXPECT_EQ(s.attention, "MLA");
  EXPECT_EQ(s.kv_cache->bytes_per_token, 70'272u);
}

TEST(Summary, WindowsLimitTheCacheAtFullContext) {
  const std::string gemma =
      R"({"model_type": "gemma3_text", "num_hidden_layers": 6, "num_attention_heads": 2, "num_key_value_heads": 1,
                                "head_dim": 16, "sliding_window": 512, "max_position_embeddings": 32768})";
  const Summary s = by_config(gemma);
  EXPECT_EQ(s.sliding_window, 512u);
  EXPECT_EQ(s.kv_cache->bytes_per_token, 6u * 64);
  EXPECT_EQ(s.kv_cache->bytes_at_context, 64u * (5 * 512 + 32768));
  const Summary typed = by_config(
      R"({"model_type": "new", "architectures": ["NewForCausalLM"], "num_hidden_layers": 2, "num_attention_heads": 1, "head_dim": 16,
      "sliding_window": 8, "max_position_embeddings": 100, "layer_types": ["sliding_attention", "full_attention"]})");
  EXPECT_EQ(typed.kv_cache->bytes_at_context, 64u * (8 + 100));
}

TEST(Summary, RecurrentLayersHaveAStateAndNoCache) {
  const Summary mamba = by_config(
      R"({"model_type": "mamba", "num_hidden_layers": 2, "intermediate_size": 32, "state_size": 16, "conv_kernel": 4})");
  EXPECT_EQ(mamba.attention, "none");
  EXPECT_EQ(mamba.kv_cache->bytes_per_token, 0u);
  EXPECT_EQ(mamba.kv_cache->recurrent_state_bytes, 4u * 2 * 32 * (16 + 3));
  const Summary hybrid = by_config(
      R"({"model_type": "jamba", "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 8,
      "attn_layer_period": 8, "attn_layer_offset": 4})");
  EXPECT_EQ(hybrid.kv_cache->bytes_per_token, 2u * 16);
}

TEST(Summary, ActiveParametersLeaveUnusedExpertsOut) {
  NamedTensors tensors;
  tensors.add("model.layers.0.self_attn.q_proj.weight", "bfloat16", {10, 10});
  for (const char* const n : {"0", "1", "2", "3"})
    tensors.add("model.layers.0.mlp.experts." + std::string(n) + ".up_proj.weight", "bfloat16", {10, 9});
  const Summary s = summary_of(
      tensors, {{"config.json",
                 R"({"model_type": "qwen3_moe", "num_hidden_layers": 1, "num_experts": 4, "num_experts_per_tok": 1,
      "moe_intermediate_size": 10, "n_shared_experts": 1})"}});
  EXPECT_EQ(s.parameters, 460u);
  EXPECT_EQ(s.parameters_active, 190u);
  EXPECT_EQ(s.experts, 4u);
  EXPECT_EQ(s.experts_used, 1u);
  EXPECT_EQ(s.experts_shared, 1u);
  EXPECT_EQ(s.expert_ffn_size, 10u);
}

TEST(Summary, LayersBeyondThoseStatedPredictTokens) {
  NamedTensors tensors = llama();
  tensors.add("model.layers.2.self_attn.q_proj.weight", "bfloat16", {32, 32});
  const Summary s = summary_of(tensors, {{"config.json", kLlamaConfig}});
  EXPECT_EQ(s.layers, 2u);
  EXPECT_EQ(s.parameters_mtp, 1024u);
  EXPECT_EQ(s.parameters, kLlama + 1024);
}

TEST(Summary, TowersCountApart) {
  NamedTensors tensors = llama();
  tensors.add("vision_tower.layers.9.weight", "bfloat16", {8, 8}).add("audio_tower.conv.weight", "bfloat16", {4, 4});
  const Summary s = summary_of(tensors, {{"config.json", kLlamaConfig}});
  EXPECT_EQ(s.parameters_vision, 64u);
  EXPECT_EQ(s.parameters_audio, 16u);
  EXPECT_FALSE(s.parameters_mtp);
}

TEST(Summary, ShortNamesAreNoTowersOutsideOfGguf) {
  NamedTensors tensors = llama();
  tensors.add("v.weight", "bfloat16", {8, 8}).add("a.weight", "bfloat16", {4, 4}).add("mm.weight", "bfloat16", {2, 2});
  const Summary s = summary_of(tensors, {{"config.json", kLlamaConfig}});
  EXPECT_FALSE(s.parameters_vision || s.parameters_audio);
  EXPECT_EQ(s.parameters, kLlama + 64 + 16 + 4);
}

TEST(Summary, BuffersAreNotParameters) {
  NamedTensors tensors;
  tensors.add("h.0.attn.bias", "float32", {1, 1, 8, 8})
      .add("h.0.attn.c_attn.weight", "float32", {4, 4})
      .add("bn.running_mean", "float32", {4})
      .add("rotary_emb.inv_freq", "float32", {4})
      .add("position_ids", "int64", {8});
  EXPECT_THAT(roles_of(tensors), ElementsAre(Role::buffer, Role::parameter, Role::buffer, Role::buffer, Role::buffer));
  EXPECT_EQ(summary_of(tensors, {}).buffer_elements, 64u + 4 + 4 + 8);
}

TEST(Summary, OptimizerStateOfTensorflowIsNotCounted) {
  NamedTensors tensors;
  tensors.add("layer/kernel/.ATTRIBUTES/VARIABLE_VALUE", "float32", {4, 4})
      .add("layer/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE", "float32", {4, 4})
      .add("layer/moving_mean/.ATTRIBUTES/VARIABLE_VALUE", "float32", {4})
      .add("dense/kernel", "float32", {2})
      .add("dense/kernel/Adam_1", "float32", {2});
  EXPECT_EQ(summary_of(tensors, {}, "tensorflow-checkpoint").parameters, 18u);
  EXPECT_EQ(summary_of(tensors, {}).parameters, 36u);
}

TEST(Summary, HeadIsADuplicateOnlyIfStated) {
  NamedTensors tensors = llama();
  tensors.add("lm_head.weight", "bfloat16", {64, 32});
  const auto with = [&](const std::string& tied) {
    std::string config = kLlamaConfig;
    config.insert(1, tied);
    return summary_of(tensors, {{"config.json", config}});
  };
  EXPECT_EQ(with("").parameters, kLlama + 2048);
  EXPECT_EQ(with("").parameters_head, 2048u);
  EXPECT_EQ(with("").tied_embeddings, false);
  EXPECT_EQ(with(R"("tie_word_embeddings": true, )").parameters, kLlama);
  EXPECT_EQ(with(R"("tie_word_embeddings": true, )").tied_embeddings, true);
}

// A linear layer of 64 inputs and 32 outputs, packed by each method.
struct Packed {
  NamedTensors tensors;
  std::string config;
  std::string name, method;
  uint64_t parameters = 64 * 32;
};

TEST(Summary, PackedWeightsHaveTheirLogicalElements) {
  std::vector<Packed> all;
  const auto add = [&](const std::string& quantisation, std::string name, std::string method) -> NamedTensors& {
    all.push_back({{},
                   R"({"model_type": "llama", "quantization_config": )" + quantisation + "}",
                   std::move(name),
                   std::move(method)});
    return all.back().tensors;
  };
  add(R"({"quant_method": "gptq", "bits": 4, "group_size": 32})", "GPTQ 4-bit g32", "gptq")
      .add("l.qweight", "int32", {8, 32})
      .add("l.qzeros", "int32", {2, 4})
      .add("l.scales", "float16", {2, 32})
      .add("l.g_idx", "int32", {64});
  // 3 bits: 32 weights in three numbers, exactly.
  add(R"({"quant_method": "gptq", "bits": 3, "group_size": -1})", "GPTQ 3-bit", "gptq")
      .add("l.qweight", "int32", {6, 32})
      .add("l.qzeros", "int32", {1, 3})
      .add("l.scales", "float16", {1, 32});
  add(R"({"quant_method": "awq", "bits": 4, "group_size": 32})", "AWQ 4-bit g32", "awq")
      .add("l.qweight", "int32", {64, 4})
      .add("l.qzeros", "int32", {2, 4})
      .add("l.scales", "float16", {2, 32});
  add(R"({"quant_method": "bitsandbytes", "load_in_4bit": true})", "bitsandbytes NF4", "bitsandbytes")
      .add("l.weight", "uint8", {1024, 1})
      .add("l.weight.absmax", "float32", {32})
      .add("l.weight.quant_map", "float32", {16})
      .add("l.weight.quant_state.bitsandbytes__nf4", "uint8", {90});
  add(R"({"quant_method": "bitsandbytes", "load_in_8bit": true})", "bitsandbytes INT8", "bitsandbytes")
      .add("l.weight", "int8", {32, 64})
      .add("l.SCB", "float32", {32});
  add(R"({"group_size": 32, "bits": 4})", "MLX 4-bit g32", "mlx")
      .add("l.weight", "uint32", {32, 8})
      .add("l.scales", "float16", {32, 2})
      .add("l.biases", "float16", {32, 2});
  add(R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32}}}})",
      "compressed-tensors W4A16 g32", "compressed-tensors")
      .add("l.weight_packed", "int32", {32, 8})
      .add("l.weight_scale", "float16", {32, 2})
      .add("l.weight_shape", "int64", {2});
  add(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})", "FP8 E4M3 128x128", "fp8")
      .add("l.weight", "float8_e4m3fn", {32, 64})
      .add("l.weight_scale_inv", "float32", {1, 1});
  add(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})", "NVFP4 g16", "modelopt")
      .add("l.weight", "uint8", {32, 32})
      .add("l.weight_scale", "float8_e4m3fn", {32, 4})
      .add("l.weight_scale_2", "float32", {})
      .add("l.input_scale", "float32", {});
  add(R"({"quant_method": "mxfp4"})", "MXFP4", "mxfp4")
      .add("experts.up_blocks", "uint8", {1, 32, 2, 16})
      .add("experts.up_scales", "uint8", {1, 32, 2});
  add(R"({"quant_method": "exl3", "bits": 3})", "EXL3 3-bit", "exl3")
      .add("l.trellis", "int16", {4, 2, 48})
      .add("l.suh", "float16", {64})
      .add("l.svh", "float16", {32});
  add(R"({"quant_method": "bitnet"})", "BITNET 2-bit", "bitnet")
      .add("l.weight", "uint8", {8, 64})
      .add("l.weight_scale", "bfloat16", {1});
  for (const Packed& one : all) {
    const Summarised got = summarised(one.tensors, {{"config.json", one.config}});
    ASSERT_TRUE(got.summary.quantisation) << one.name;
    EXPECT_EQ(got.summary.quantisation->name, one.name);
    EXPECT_EQ(got.summary.quantisation->method, one.method) << one.name;
    EXPECT_EQ(got.summary.parameters, one.parameters) << one.name;
    EXPECT_EQ(got.tensors.front().role, Role::parameter) << one.name;
    for (size_t i = 1; i < got.tensors.size(); ++i)
      EXPECT_EQ(got.tensors[i].role, Role::companion) << one.name << ' ' << i;
  }
}

TEST(Summary, PackedWeightsOfAnUnknownKindLeaveTheNumberOut) {
  NamedTensors tensors = llama();
  tensors.add("model.layers.0.mlp.down_proj.weight", "uint8", {16, 48});
  const Summary s = summary_of(tensors, {{"config.json", kLlamaConfig}});
  EXPECT_FALSE(s.parameters || s.bits_per_weight);
  EXPECT_THAT(s.warnings, ElementsAre(HasSubstr("packed weights of an unknown kind")));
}

TEST(Summary, HostileConfigIsIgnoredFieldByField) {
  const Summary s = by_config(
      R"({"model_type": "llama", "num_hidden_layers": -1, "hidden_size": 1e308, "vocab_size": 18446744073709551615,
      "num_attention_heads": "many", "max_position_embeddings": NaN, "rope_theta": Infinity, "intermediate_size": 4.5})");
  EXPECT_EQ(s.kind, "causal-lm");
  EXPECT_FALSE(s.layers || s.hidden_size || s.vocabulary_size || s.heads || s.context_length || s.rope.base ||
               s.ffn_size);
  EXPECT_THAT(s.warnings, testing::Contains(HasSubstr("config.json: num_hidden_layers is not an integer")));
  EXPECT_THAT(by_config("[1]").warnings, ElementsAre(HasSubstr("not a JSON object")));
  EXPECT_THAT(by_config("{").warnings, ElementsAre(HasSubstr("ignored")));
  EXPECT_EQ(by_config("\xEF\xBB\xBF{\"model_type\": \"bert\"}").kind, "encoder");
}

TEST(Summary, CardTokenizerAndTemplatesAreRead) {
  const Summary s = summary_of(
      llama(),
      {{"config.json", kLlamaConfig},
       {"README.md",
        "---\nlicense: other\nlicense_name: own-1.0\nbase_model:\n- org/base\ntags: [a, \"b c\"]\nlanguage: en # "
        "main\n---\n# Title\n"},
       {"tokenizer.json", R"({"added_tokens": [{"content": "model"}], "model": {"type": "BPE", "vocab": {}}})"},
       {"tokenizer_config.json",
        R"({"chat_template": [{"name": "tool_use", "template": "{{ tools }}"}, {"name": "default", "template": "<think>"}]})"},
       {"generation_config.json", R"({"temperature": 0.6, "eos_token_id": [1]})"}});
  EXPECT_EQ(s.license, "own-1.0");
  EXPECT_THAT(s.base_models, ElementsAre("org/base"));
  EXPECT_THAT(s.tags, ElementsAre("a", "b c"));
  EXPECT_THAT(s.languages, ElementsAre("en"));
  EXPECT_EQ(s.tokenizer, "BPE");
  EXPECT_EQ(s.has_chat_template, true);
  EXPECT_THAT(s.chat_template_names, ElementsAre("tool_use", "default"));
  EXPECT_TRUE(s.template_has_tools && s.template_has_thinking);
  EXPECT_EQ(to_json_line(s.generation), R"({"temperature":0.6})");
}

// A card is about the model of its directory. Any other README may be about anything.
TEST(Summary, TitleOfACardNamesOnlyTheModelOfItsDirectory) {
  const auto name = [](const char* readme, bool is_directory) {
    Model model;
    model.format = "safetensors";
    model.parts.push_back({"model.safetensors", Later<SourcePtr>::of(in_memory(""))});
    model.beside = std::make_shared<test::MemoryFolder>(Files{{"README.md", readme}});
    if (is_directory) model.chosen.edit().weight_files = {"model.safetensors"};
    return summary::summarise(model).summary.name;
  };
  constexpr const char* kCard = "---\n# a comment\nlicense: mit\n---\n\n# Title\n";
  EXPECT_EQ(name(kCard, true), "Title");
  EXPECT_EQ(name(kCard, false), "");
  EXPECT_EQ(name("# Samples\n", true), "");
  EXPECT_EQ(name("---\nlicense: mit\n", true), "");
}

TEST(Summary, PathOfATrainerIsNoName) {
  const auto name = [](const std::string& path) {
    return by_config(R"({"model_type": "llama", "_name_or_path": ")" + path + "\"}").name;
  };
  EXPECT_EQ(name("org/model"), "org/model");
  for (const char* const path : {"/home/me/out", "./out/model", "out", "a/b/c"}) EXPECT_EQ(name(path), "") << path;
}

TEST(Summary, AdapterIsDescribedByPeft) {
  NamedTensors tensors;
  tensors.add("base_model.model.layers.0.q_proj.lora_A.weight", "float32", {8, 32})
      .add("base_model.model.layers.0.q_proj.lora_B.weight", "float32", {32, 8});
  const Summary s = summary_of(
      tensors, {{"adapter_config.json",
                 R"({"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_rslora": true, "rank_pattern": {"x": 16},
      "target_modules": ["v_proj", "q_proj"], "base_model_name_or_path": "org/base", "task_type": "CAUSAL_LM"})"}});
  EXPECT_EQ(s.kind, "adapter");
  ASSERT_TRUE(s.adapter);
  EXPECT_EQ(s.adapter->method, "LORA");
  EXPECT_EQ(s.adapter->rank, 8u);
  EXPECT_EQ(s.adapter->rank_text, "8, some 16");
  EXPECT_EQ(s.adapter->alpha, 16);
  EXPECT_TRUE(s.adapter->uses_rslora);
  EXPECT_THAT(s.adapter->target_modules, ElementsAre("q_proj", "v_proj"));
  EXPECT_EQ(s.adapter->base_model, "org/base");
  EXPECT_EQ(s.adapter->task, "CAUSAL_LM");
  EXPECT_EQ(s.parameters, 512u);
}

TEST(Summary, EmbeddingModelSaysItsPooling) {
  const Summary s = summary_of(
      {}, {{"config.json", R"({"model_type": "bert", "hidden_size": 16})"},
           {"modules.json", "[]"},
           {"1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true, "word_embedding_dimension": 16})"},
           {"2_Dense/config.json", R"({"out_features": 8})"}});
  EXPECT_EQ(s.pooling, "mean");
  EXPECT_EQ(s.embedding_size, 8u);
}

TEST(Summary, LabelsOfClassifiersAreCounted) {
  EXPECT_EQ(
      by_config(
          R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}})")
          .labels,
      3u);
  EXPECT_FALSE(
      by_config(
          R"({"model_type": "bert", "architectures": ["BertModel"], "id2label": {"0": "LABEL_0", "1": "LABEL_1"}})")
          .labels);
}

GgufBuilder gguf_of(uint32_t file_type) {
  GgufBuilder out;
  out.string("general.architecture", "llama")
      .string("general.name", "Tiny")
      .string("general.license", "mit")
      .u32("llama.block_count", 2)
      .u32("llama.embedding_length", 32)
      .u32("llama.feed_forward_length", 64)
      .u32("llama.attention.head_count", 4)
      .u32("llama.attention.head_count_kv", 2)
      .u32("llama.context_length", 512)
      .u32("general.file_type", file_type);
  return out;
}

TEST(Summary, KeysOfAGgufGiveTheArchitecture) {
  const Summary s = of_gguf(gguf_of(15));
  EXPECT_EQ(s.name, "Tiny");
  EXPECT_EQ(s.license, "mit");
  EXPECT_EQ(s.architecture, "llama");
  EXPECT_EQ(s.layers, 2u);
  EXPECT_EQ(s.hidden_size, 32u);
  EXPECT_EQ(s.ffn_size, 64u);
  EXPECT_EQ(s.heads, 4u);
  EXPECT_EQ(s.kv_heads, 2u);
  EXPECT_EQ(s.head_dim, 8u);
  EXPECT_EQ(s.context_length, 512u);
}

TEST(Summary, GgufStatesOrGuessesItsQuantisation) {
  EXPECT_EQ(of_gguf(gguf_of(15)).quantisation->name, "Q4_K_M");
  EXPECT_EQ(of_gguf(gguf_of(15)).quantisation->method, "gguf");
  EXPECT_EQ(of_gguf(gguf_of(140)).quantisation->name, "IQ4_K");  // of a fork
  EXPECT_EQ(of_gguf(gguf_of(57)).quantisation->name, "file type 57");
  EXPECT_TRUE(of_gguf(gguf_of(1024 + 7)).quantisation->is_guessed);
  EXPECT_FALSE(of_gguf(GgufBuilder().string("general.architecture", "llama")).quantisation);
  EXPECT_EQ(of_gguf(gguf_of(15), "x-UD-Q4_K_XL.gguf").quantisation->label, "UD-Q4_K_XL");
  EXPECT_EQ(of_gguf(gguf_of(15), "x.Q4_K_M.gguf").quantisation->label, "");
}

}  // namespace
}  // namespace weightfs::summary_test
