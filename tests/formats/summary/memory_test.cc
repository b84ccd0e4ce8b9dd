// The memory of a model. "Reported" numbers are those that llama.cpp printed when it loaded a GGUF of these shapes: its
// "model buffer size", "KV buffer size", "RS buffer size" and "compute buffer size", in MiB.
#include "formats/summary/memory.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/model.h"
#include "tests/builders/named_tensors.h"
#include "tests/support/memory_folder.h"

namespace weightfs::summary_memory_test {
namespace {

using summary::MemoryChoice;
using summary::MemoryModel;
using summary::MemoryPart;
using summary::MemoryUse;
using test::NamedTensors;
using testing::HasSubstr;

constexpr double kMiB = 1 << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

double mib(uint64_t bytes) { return static_cast<double>(bytes) / kMiB; }

// A GGUF: keys of its architecture, and tensors.
struct Gguf {
  explicit Gguf(const std::string& architecture) : prefix(architecture + ".") {
    keys.append("general.architecture", architecture);
    keys.append("tokenizer.ggml.model", "llama");
  }
  Gguf& key(const std::string& name, Value value) {
    keys.append(prefix + name, std::move(value));
    return *this;
  }
  Gguf& attention(int layer, uint64_t hidden, uint64_t queries, uint64_t keys_and_values) {
    const std::string name = fmt::format("blk.{}.", layer);
    tensors.add(name + "attn_norm.weight", "float32", {hidden}).add(name + "attn_q.weight", "q4_k", {queries, hidden});
    tensors.add(name + "attn_k.weight", "q4_k", {keys_and_values, hidden});
    tensors.add(name + "attn_v.weight", "q4_k", {keys_and_values, hidden});
    tensors.add(name + "attn_output.weight", "q4_k", {hidden, queries});
    return *this;
  }
  Gguf& ffn(int layer, uint64_t hidden, uint64_t width) {
    const std::string name = fmt::format("blk.{}.", layer);
    tensors.add(name + "ffn_norm.weight", "float32", {hidden}).add(name + "ffn_gate.weight", "q4_k", {width, hidden});
    tensors.add(name + "ffn_up.weight", "q4_k", {width, hidden}).add(name + "ffn_down.weight", "q4_k", {hidden, width});
    return *this;
  }
  Gguf& ends(uint64_t vocabulary, uint64_t hidden) {
    tensors.add("token_embd.weight", "q4_k", {vocabulary, hidden}).add("output_norm.weight", "float32", {hidden});
    tensors.add("output.weight", "q6_k", {vocabulary, hidden});
    return key("vocab_size", vocabulary).key("embedding_length", hidden);
  }

  std::string prefix;
  Map keys;
  NamedTensors tensors;
};

Result<MemoryModel> opened(const Model& model) {
  const auto summarised = summary::summarise(model);
  return MemoryModel::of(model, summarised.summary, summarised.tensors);
}

Result<MemoryModel> opened(const Gguf& gguf) {
  Model model;
  model.format = "gguf";
  model.metadata = gguf.keys;
  model.tensors.append(gguf.tensors.tensors);
  return opened(model);
}

Result<MemoryModel> opened(const NamedTensors& tensors, const std::string& config) {
  Model model;
  model.format = "safetensors";
  model.tensors.append(tensors.tensors);
  model.parts.push_back({"model.safetensors", Later<SourcePtr>::of(in_memory(""))});
  model.beside = std::make_shared<test::MemoryFolder>(test::Files{{"config.json", config}});
  return opened(model);
}

// Llama 2 7B: 32 blocks, 32 heads of 128 without groups, 32,000 tokens.
Gguf llama_7b() {
  Gguf out("llama");
  out.ends(32000, 4096);
  for (int layer = 0; layer < 32; ++layer) out.attention(layer, 4096, 4096, 4096).ffn(layer, 4096, 11008);
  out.key("block_count", 32).key("context_length", 4096).key("feed_forward_length", 11008);
  out.key("attention.head_count", 32).key("attention.head_count_kv", 32);
  return out;
}

// Gemma 3 4B: of 34 layers five have no window of 1,024.
Gguf gemma_4b() {
  Gguf out("gemma3");
  out.tensors.add("token_embd.weight", "q6_k", {262144, 2560});
  for (int layer = 0; layer < 34; ++layer) out.attention(layer, 2560, 2048, 1024).ffn(layer, 2560, 10240);
  out.key("vocab_size", 262144).key("embedding_length", 2560).key("block_count", 34).key("context_length", 131072);
  out.key("feed_forward_length", 10240).key("attention.head_count", 8).key("attention.head_count_kv", 4);
  out.key("attention.key_length", 256).key("attention.value_length", 256);
  out.key("attention.sliding_window", 1024);
  return out;
}

MemoryUse used(const Gguf& gguf, const MemoryChoice& choice, uint64_t layers) {
  const auto model = opened(gguf);
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  const auto use = model->use(choice, layers);
  EXPECT_TRUE(use) << (use ? "" : use.error().message);
  return *use;
}

std::string refused(const Gguf& gguf) {
  const auto model = opened(gguf);
  return model ? "" : model.error().message;
}

TEST(Memory, LayersAreOnTheGpuFromTheLastOneOn) {
  const auto model = opened(llama_7b());
  ASSERT_TRUE(model);
  EXPECT_EQ(model->layers(), 33u);
  EXPECT_EQ(model->context(), 4096u);
  const MemoryChoice choice{.context = 4096};
  const auto all = model->use(choice, 33), some = model->use(choice, 20), one = model->use(choice, 1);
  EXPECT_NEAR(mib(all->gpu.weights), 3577.55, 0.01);  // reported
  EXPECT_NEAR(mib(all->host.weights), 70.31, 0.01);
  EXPECT_NEAR(mib(some->gpu.weights), 2165.84, 0.01);
  EXPECT_NEAR(mib(one->gpu.weights), 102.55, 0.01);
  EXPECT_EQ(mib(all->gpu.cache), 2048.0);
  EXPECT_EQ(mib(some->gpu.cache), 1216.0);
  EXPECT_EQ(mib(some->host.cache), 832.0);
  EXPECT_EQ(mib(one->host.cache), 2048.0);
  const auto none = model->use(choice, 0);
  EXPECT_EQ(none->gpu.total(), 0u);
  EXPECT_EQ(none->host.weights, all->gpu.weights + all->host.weights);
}

TEST(Memory, TypesOfTheCacheHaveTheirBlocks) {
  EXPECT_EQ(mib(used(llama_7b(), {.context = 4096, .kv_type = "q8_0"}, 33).gpu.cache), 1088.0);  // reported
  EXPECT_EQ(mib(used(llama_7b(), {.context = 16384, .kv_type = "q4_0"}, 33).gpu.cache), 2304.0);
  EXPECT_EQ(mib(used(llama_7b(), {.context = 4096, .kv_type = "f32"}, 33).gpu.cache), 4096.0);
  EXPECT_EQ(mib(used(llama_7b(), {.context = 4096, .kv_type = "bf16"}, 33).gpu.cache), 2048.0);
}

TEST(Memory, ContextIsPadded) {
  EXPECT_EQ(used(llama_7b(), {.context = 4000}, 33).gpu.cache, used(llama_7b(), {.context = 4096}, 33).gpu.cache);
  EXPECT_EQ(mib(used(llama_7b(), {.context = 1}, 33).gpu.cache), 128.0);
}

TEST(Memory, LayersWithAWindowKeepItAndABatch) {
  // Reported for a batch of 513: 5 layers with 4,096 tokens, 29 with 1,792.
  EXPECT_EQ(mib(used(gemma_4b(), {.context = 4096, .batch = 513}, 0).host.cache), 283.0);
  EXPECT_EQ(mib(used(gemma_4b(), {.context = 32768, .batch = 513}, 0).host.cache), 843.0);
  EXPECT_EQ(mib(used(gemma_4b(), {.context = 4096, .batch = 2049}, 0).host.cache), 457.0);
  EXPECT_EQ(mib(used(gemma_4b(), {.context = 512}, 0).host.cache), 68.0);  // no more than the context
}

TEST(Memory, OutputThatIsTheEmbeddingIsCopied) {
  const MemoryUse use = used(gemma_4b(), {.context = 4096}, 35);
  EXPECT_NEAR(mib(use.host.weights), 525.0, 0.01);
  EXPECT_NEAR(mib(use.gpu.weights), 525.0 + 1721.25 + 34 * 2 * 2560 * 4 / kMiB, 0.01);
  EXPECT_NEAR(mib(used(gemma_4b(), {.context = 4096}, 0).host.weights), 525.0 + 1721.25 + 0.66, 0.01);
}

TEST(Memory, CompressedKeysAreTheSameForAllHeads) {
  Gguf gguf("deepseek2");
  gguf.ends(102400, 2048);
  for (int layer = 0; layer < 27; ++layer) gguf.ffn(layer, 2048, 10752);
  gguf.key("block_count", 27).key("context_length", 163840).key("attention.head_count", 16);
  gguf.key("attention.head_count_kv", 1).key("attention.kv_lora_rank", 512).key("rope.dimension_count", 64);
  gguf.key("attention.key_length", 576).key("attention.value_length", 512).key("feed_forward_length", 10752);
  gguf.key("attention.key_length_mla", 192).key("attention.value_length_mla", 128);
  EXPECT_EQ(mib(used(gguf, {.context = 4096}, 0).host.cache), 121.5);  // reported
  EXPECT_NEAR(mib(used(gguf, {.context = 4096, .kv_type = "q8_0"}, 0).host.cache), 64.55, 0.01);
}

TEST(Memory, RecurrentLayersKeepAStateOfAnyContext) {
  Gguf mamba("mamba");
  mamba.ends(50280, 2560);
  for (int layer = 0; layer < 64; ++layer)
    mamba.tensors.add(fmt::format("blk.{}.ssm_in.weight", layer), "q8_0", {10240, 2560});
  mamba.key("block_count", 64).key("context_length", 1048576).key("ssm.conv_kernel", 4).key("ssm.inner_size", 5120);
  mamba.key("ssm.state_size", 16).key("attention.head_count", 0);
  EXPECT_EQ(mib(used(mamba, {.context = 4096}, 65).gpu.cache), 23.75);  // reported
  EXPECT_EQ(mib(used(mamba, {.context = 1'000'000}, 65).gpu.cache), 23.75);
  const auto fit = opened(mamba)->fit({.context = 4096}, 24 * kGiB);
  EXPECT_EQ(fit->largest_context, 1048576u);
}

TEST(Memory, HybridLayersKeepEitherKeysOrAState) {
  Gguf gguf("granitehybrid");
  gguf.ends(100352, 2048);
  List heads;
  for (int layer = 0; layer < 40; ++layer) {
    heads.emplace_back(layer % 10 == 5 ? 8 : 0);
    gguf.ffn(layer, 2048, 8192);
    if (layer % 10 == 5) gguf.attention(layer, 2048, 2048, 512);
  }
  gguf.key("block_count", 40).key("context_length", 131072).key("feed_forward_length", 8192);
  gguf.key("attention.head_count", 32).key("attention.head_count_kv", std::move(heads));
  gguf.key("ssm.conv_kernel", 4).key("ssm.inner_size", 4096).key("ssm.state_size", 128).key("ssm.group_count", 1);
  EXPECT_NEAR(mib(used(gguf, {.context = 4096}, 0).host.cache), 32.0 + 73.79, 0.01);  // reported
}

TEST(Memory, BuffersAreNearThoseOfLlamaCpp) {
  const auto gpu = [](const Gguf& gguf, const MemoryChoice& choice, uint64_t layers) {
    return mib(used(gguf, choice, layers).gpu.compute);
  };
  EXPECT_NEAR(gpu(llama_7b(), {.context = 2048}, 33), 82.51, 0.5);  // reported
  EXPECT_NEAR(gpu(llama_7b(), {.context = 4096}, 33), 84.51, 0.5);
  EXPECT_NEAR(gpu(llama_7b(), {.context = 4096, .kv_type = "q8_0"}, 33), 92.59, 0.5);
  EXPECT_NEAR(gpu(llama_7b(), {.context = 4096}, 20), 109.19, 11);
  EXPECT_NEAR(mib(used(llama_7b(), {.context = 4096}, 33).host.compute), 20.01 + 0.12, 0.05);
  EXPECT_NEAR(mib(used(gemma_4b(), {.context = 4096}, 0).host.compute), 528.03 + 1.0, 8);
}

TEST(Memory, MostLayersThatFitAreFound) {
  const auto model = opened(llama_7b());
  const MemoryChoice choice{.context = 4096};
  EXPECT_EQ(model->fit(choice, 8 * kGiB)->layers, 33u);
  EXPECT_EQ(model->fit(choice, 8 * kGiB)->largest_context, 4096u);
  const uint64_t bytes = 4 * kGiB;
  const auto fit = model->fit(choice, bytes);
  EXPECT_LE(model->use(choice, fit->layers)->gpu.total(), bytes);
  EXPECT_GT(model->use(choice, fit->layers + 1)->gpu.total(), bytes);
  ASSERT_TRUE(fit->largest_context);
  EXPECT_LE(model->use({.context = *fit->largest_context}, 33)->gpu.total(), bytes);
  EXPECT_GT(model->use({.context = *fit->largest_context + 256}, 33)->gpu.total(), bytes);
  EXPECT_EQ(model->fit(choice, 100 << 20)->layers, 0u);
  EXPECT_FALSE(model->fit(choice, 100 << 20)->largest_context);
}

TEST(Memory, RepositoryCountsAsAGgufOfItsTypes) {
  NamedTensors tensors;
  tensors.add("model.embed_tokens.weight", "bfloat16", {64, 32}).add("lm_head.weight", "bfloat16", {64, 32});
  tensors.add("model.norm.weight", "bfloat16", {32});
  for (const char* const layer : {"model.layers.0.", "model.layers.1.", "model.layers.2."})
    tensors.add(std::string(layer) + "mlp.up_proj.weight", "bfloat16", {48, 32});
  const auto model = opened(tensors, R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
      "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
      "num_hidden_layers": 3, "max_position_embeddings": 4096, "vocab_size": 64})");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->layers(), 4u);
  const auto use = model->use({.context = 1024}, 2);
  EXPECT_EQ(use->gpu.weights, 2u * (48 * 32 + 64 * 32 + 32));
  EXPECT_EQ(use->host.weights, 2u * (64 * 32 + 2 * 48 * 32));
  EXPECT_EQ(use->gpu.cache, 1024u * 2 * 2 * 2 * 8);
  EXPECT_EQ(use->host.cache, 2 * use->gpu.cache);
}

TEST(Memory, BlocksOfATypeDivideTheHeads) {
  Gguf gguf("llama");
  gguf.ends(1000, 1280).ffn(0, 1280, 256);
  gguf.key("block_count", 1).key("context_length", 2048).key("feed_forward_length", 256);
  gguf.key("attention.head_count", 16).key("attention.head_count_kv", 2);
  const auto model = opened(gguf);
  EXPECT_TRUE(model->use({.context = 1024}, 2));
  EXPECT_THAT(model->use({.context = 1024, .kv_type = "q8_0"}, 2).error().message,
              HasSubstr("q8_0 keeps blocks of 32, which do not divide a head of 80"));
}

TEST(Memory, LayersThatPredictFurtherTokensAreNotLoaded) {
  const MemoryUse without = used(llama_7b(), {.context = 4096}, 33);
  Gguf other("llama");
  other.ends(32000, 4096);
  for (int layer = 0; layer < 33; ++layer) other.attention(layer, 4096, 4096, 4096).ffn(layer, 4096, 11008);
  other.key("block_count", 33).key("nextn_predict_layers", 1).key("context_length", 4096);
  other.key("feed_forward_length", 11008).key("attention.head_count", 32).key("attention.head_count_kv", 32);
  EXPECT_EQ(opened(other)->layers(), 34u);  // llama.cpp counts it
  EXPECT_EQ(used(other, {.context = 4096}, 34).gpu.total(), without.gpu.total());
}

TEST(Memory, WhatIsNotKnownIsRefusedWithTheReason) {
  Gguf encoder("bert");
  encoder.key("block_count", 1);
  EXPECT_THAT(refused(encoder), HasSubstr("it is not a language model"));
  Gguf indexed = llama_7b();
  indexed.key("attention.indexer.key_length", 128);
  EXPECT_EQ(refused(indexed), "what its attention keeps is not known");
  Gguf hybrid("jamba");
  hybrid.ends(1000, 256).ffn(0, 256, 256).key("block_count", 1).key("attention.head_count", 2);
  hybrid.key("ssm.inner_size", 512).key("attention.head_count_kv", 1);
  EXPECT_EQ(refused(hybrid), "the state of its recurrent layers is not known");
}

TEST(Memory, HostileNumbersAreRefused) {
  constexpr uint64_t kLarge = uint64_t{1} << 47;
  Gguf gguf("llama");
  gguf.ends(1000, 256).ffn(0, 256, 256).key("block_count", 1).key("context_length", kLarge);
  gguf.key("attention.head_count", 2).key("attention.head_count_kv", 1 << 16).key("attention.key_length", 1 << 30);
  gguf.key("attention.value_length", 1 << 30).key("feed_forward_length", kLarge);
  const auto model = opened(gguf);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE(model->use({.context = 1 << 30}, 1));
  EXPECT_FALSE(model->fit({.context = 1 << 30}, kGiB));
  EXPECT_FALSE(opened(llama_7b())->use({.context = 4096, .kv_type = "q4_k"}, 1));
}

}  // namespace
}  // namespace weightfs::summary_memory_test
