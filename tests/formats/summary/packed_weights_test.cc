// Parameters of weights whose frameworks tell by their own means that they are quantised, and the parts of names and
// shapes by which packed weights are found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/model.h"
#include "formats/summary/facts/unknown_attention.h"
#include "formats/summary/summary.h"
#include "formats/summary/tensors/groups.h"
#include "formats/summary/tensors/stated.h"
#include "formats/summary/tensors/training_state.h"
#include "tests/builders/named_tensors.h"

namespace weightfs::packed_weights_test {
namespace {

using summary::Summary;
using test::NamedTensors;

Summary summary_of(const NamedTensors& tensors, std::string format, std::string_view key = "", Map facts = {}) {
  Model model;
  model.format = std::move(format);
  model.tensors.append(tensors.tensors);
  if (!key.empty()) model.metadata.append(std::string(key), std::move(facts));
  return summary::summarise(model).summary;
}

Map keras_facts(List modes) {
  Map facts;
  facts.append("quantization", std::move(modes));
  return facts;
}

NamedTensors dense_of_keras() {
  NamedTensors out;
  return std::move(out.add("layers/dense/vars/0", "int8", {256, 128})
                       .add("layers/dense/vars/1", "float32", {128})
                       .add("layers/dense/vars/2", "float32", {128})
                       .add("layers/dense_1/vars/0", "int8", {128, 64})
                       .add("layers/dense_1/vars/1", "float32", {64})
                       .add("optimizer/vars/0", "float32", {256, 128}));
}

TEST(PackedWeights, KerasCountsInt8IfItsConfigurationStatesNothingElse) {
  const Summary s = summary_of(dense_of_keras(), "keras", "keras", keras_facts({"int8"}));
  EXPECT_EQ(s.parameters, 256u * 128 + 128 + 128 * 64);
  EXPECT_EQ(s.optimizer_elements, 256u * 128);
  for (const List& modes : {List{"int4"}, List{"int4", "int8"}, List{}})
    EXPECT_FALSE(summary_of(dense_of_keras(), "keras", "keras", keras_facts(modes)).parameters);
}

TEST(PackedWeights, WeightsOfKerasWithoutAConfigurationAreNotCounted) {
  for (const char* const format : {"hdf5", "keras-sharded"}) {
    const Summary s = summary_of(dense_of_keras(), format);
    EXPECT_FALSE(s.parameters || s.bits_per_weight) << format;
    EXPECT_THAT(s.warnings, testing::ElementsAre(testing::HasSubstr("packed weights of an unknown kind"))) << format;
  }
}

TEST(PackedWeights, QuantisedTensorsOfPytorchAreParameters) {
  NamedTensors tensors;
  tensors.add("0._packed_params._packed_params.0", "int8", {4, 8})
      .add("0._packed_params._packed_params.1", "float32", {4})
      .add("0.scale", "float32", {})
      .add("0.zero_point", "int64", {})
      .add("1.weight", "int8", {4, 8})
      .add("1.weight.scales", "float64", {4})
      .add("1.weight.zero_points", "int64", {4});
  for (const size_t i : {0u, 4u}) {
    TensorView quantised = tensors.tensors[i];
    quantised.stored_dtype = "qint8";
    tensors.tensors.replace(i, quantised);
  }
  const Summary s = summary_of(tensors, "pytorch");
  EXPECT_EQ(s.parameters, 32u + 4 + 32);
  EXPECT_FALSE(s.buffer_elements);
  EXPECT_EQ(s.dtype, "int8");
}

TEST(PackedWeights, Int16OfCtranslate2CountsWithItsScale) {
  NamedTensors tensors;
  tensors.add("decoder/embeddings/weight", "int16", {5, 4})
      .add("decoder/embeddings/weight_scale", "float32", {})
      .add("decoder/linear/weight", "int8", {4, 4})
      .add("decoder/linear/weight_scale", "float32", {4})
      .add("decoder/linear/bias", "float32", {4});
  EXPECT_EQ(summary_of(tensors, "ctranslate2").parameters, 40u);
}

TEST(PackedWeights, Int32OfCtranslate2CountsByItsZeroPoints) {
  NamedTensors tensors;
  tensors.add("linear/weight", "int32", {64, 8})
      .add("linear/weight_scale", "float16", {2, 64})
      .add("linear/weight_zero", "int32", {2, 8});
  EXPECT_EQ(summary_of(tensors, "ctranslate2").parameters, 4096u);
}

TEST(PackedWeights, RowsWhoseLastGroupIsNotFullAreCounted) {
  const auto elements = [](Shape weight, Shape scale, uint64_t group, summary::Number bits) -> summary::Number {
    const auto unpacked = summary::unpack_by_groups({weight, 8, scale}, group, bits);
    return unpacked ? summary::Number(unpacked->elements) : std::nullopt;
  };
  EXPECT_EQ(elements({2, 128}, {2, 2}, 128, {}), 512u);
  EXPECT_EQ(elements({2, 128}, {2, 128}, 2, {}), 512u);
  EXPECT_EQ(elements({2, 72}, {2, 2}, 128, 4), 288u);
  EXPECT_EQ(elements({2, 72}, {2, 2}, 128, {}), std::nullopt);  // 3 or 4 bits
  EXPECT_EQ(elements({256, 256}, {2, 2}, 128, {}), 65536u);
  EXPECT_EQ(elements({2, 128}, {2, 5}, 128, {}), std::nullopt);
  EXPECT_EQ(elements({uint64_t{1} << 62, 8}, {2, 2}, 128, {}), std::nullopt);
}

TEST(PackedWeights, NamesOfMethodsHaveBits) {
  for (const auto& [name, bits] : {std::pair{"w4afp8", 4u},
                                   {"Int4WeightOnlyConfig", 4u},
                                   {"Float8DynamicActivationInt4WeightConfig", 4u},
                                   {"Int8DynamicActivationInt4WeightConfig", 4u},
                                   {"int8_dynamic_activation_int8_weight", 8u},
                                   {"qint8", 8u},
                                   {"nf4", 4u},
                                   {"W4A16_AWQ", 4u},
                                   {"q3f16_1", 3u}})
    EXPECT_EQ(summary::bits_in_name(name), bits) << name;
  for (const char* const name : {"gptq", "awq", "", "w", "fp99", "Int8DynamicActivationIntxWeightConfig"})
    EXPECT_FALSE(summary::bits_in_name(name)) << name;
}

TEST(TrainingState, IsFoundByTheObjectsAroundIt) {
  for (const char* const name :
       {"optimizer.state.0.exp_avg", "optimizer_state_dict.state.0.step", "optimizer_states.0.state.1.exp_avg_sq",
        "g_optimizer.state.0.sum", "optimG.state.0.step", "optimizer/vars/3", "optimizer_weights/Adam/dense/kernel/m:0",
        "opt_state.0.mu.params.Dense_0.kernel", "app.optimizer.state.w.exp_avg", "state.0.momentum_buffer",
        "grad_scaler.scale", "w.exp_avg"})
    EXPECT_TRUE(summary::is_training_state(name, traits_of("pytorch"), true)) << name;
  for (const char* const name : {"model.weight", "optimizer.target.encoder.kernel", "state.0.weight",
                                 "opt_model.weight", "optimizer", "step", "state", "optimal.weight", "scaler.mean_"})
    EXPECT_FALSE(summary::is_training_state(name, traits_of("pytorch"), true)) << name;
  EXPECT_TRUE(summary::is_training_state("linear_0.w_0_moment1_0", traits_of("paddle"), true));
  EXPECT_FALSE(summary::is_training_state("linear_0.w_0_moment1_0", traits_of("pytorch"), true));
}

TEST(TrainingState, ModulesThatAreNamedLikeItAreParametersWithoutSlots) {
  NamedTensors tensors;
  tensors.add("scheduler.proj.weight", "float32", {4, 8}).add("optimizer_net.0.weight", "float32", {8, 8});
  EXPECT_EQ(summary_of(tensors, "pytorch").parameters, 96u);
  tensors.add("model.weight", "float32", {4}).add("optimizer.state.0.step", "float32", {});
  EXPECT_EQ(summary_of(tensors, "pytorch").parameters, 4u);
}

TEST(PackedWeights, ScaleOfARowHasTheShapeOfTheRows) {
  const auto is_by_row = [](std::vector<uint64_t> weight, std::vector<uint64_t> scale) {
    return summary::ScaledShapes{weight, 8, scale}.is_scaled_by_row();
  };
  for (const auto& scale : std::vector<std::vector<uint64_t>>{{}, {1}, {64}, {64, 1}, {1, 128}, {128}, {1, 1}})
    EXPECT_TRUE(is_by_row({64, 128}, scale));
  EXPECT_FALSE(is_by_row({64, 128}, {2, 64}));
  EXPECT_FALSE(is_by_row({64, 128}, {2, 32}));
  EXPECT_FALSE(is_by_row({64, 128}, {32}));
  for (const auto& scale : std::vector<std::vector<uint64_t>>{{4, 64}, {4, 64, 1}, {4, 1, 128}, {256, 1}})
    EXPECT_TRUE(is_by_row({4, 64, 128}, scale));
  EXPECT_FALSE(is_by_row({4, 64, 128}, {4, 128, 2}));
}

TEST(UnknownAttention, IsFoundByWordsOfFields) {
  const auto is_unknown = [](const char* name, Value value, bool has_states) {
    Map map;
    map.append(name, std::move(value));
    std::vector<std::string> warnings;
    return summary::states_unknown_attention({&map, "config.json", warnings}, has_states);
  };
  for (const char* const name : {"kv_reuse_group",
                                 "swa_layers",
                                 "attention_pattern",
                                 "global_head_dim",
                                 "linear_attn_every",
                                 "compress_ratios",
                                 "attn_types",
                                 "mamba_d_state",
                                 "block_configs",
                                 "use_lightning",
                                 "attn_layers",
                                 "attn_every",
                                 "attn_layer_idxs",
                                 "sliding_window_layers",
                                 "full_attention_layers",
                                 "attention_layer_idx",
                                 "full_attention_idx",
                                 "total_ut_steps",
                                 "attention_offset",
                                 "attention_class"})
    EXPECT_TRUE(is_unknown(name, uint64_t{1}, false)) << name;
  for (const char* const name :
       {"num_kv_heads", "kv_lora_rank", "kv_cache_dtype", "qkv_bias", "num_local_experts", "mlp_layer_types",
        "activation_sparsity_pattern", "rope_local_base_freq", "hidden_size", "rope_pattern", "attn_layer_period",
        "max_window_layers", "num_attention_heads", "sliding_window", "attention_layer_norm"})
    EXPECT_FALSE(is_unknown(name, uint64_t{1}, false)) << name;
  EXPECT_FALSE(is_unknown("mamba_d_state", uint64_t{16}, true));
  EXPECT_FALSE(is_unknown("kv_reuse_group", nullptr, false));
  EXPECT_FALSE(is_unknown("swa_layers", false, false));
}

}  // namespace
}  // namespace weightfs::packed_weights_test
