#include "formats/mapping/config/class_defaults.h"

#include <algorithm>
#include <array>

namespace weightfs::mapping {
namespace {

struct Default {
  std::string_view family;
  std::string_view field;
  double value;
};

// The converter has the defaults of Gemma 3 too and writes them last. Those of Gemma3Text come first, as they do with
// transformers.
constexpr auto kDefaults = std::to_array<Default>({
    {"Llama", "max_position_embeddings", 2048},
    {"Llama", "rms_norm_eps", 1e-6},
    {"Llama", "vocab_size", 32'000},
    {"Mistral", "max_position_embeddings", 131'072},
    {"Mistral", "num_key_value_heads", 8},
    {"Mistral", "rms_norm_eps", 1e-6},
    {"Mistral", "vocab_size", 32'000},
    {"Mixtral", "max_position_embeddings", 131'072},
    {"Mixtral", "num_key_value_heads", 8},
    {"Mixtral", "rms_norm_eps", 1e-5},
    {"Mixtral", "rope_theta", 1e6},
    {"Mixtral", "vocab_size", 32'000},
    {"Mixtral", "num_local_experts", 8},
    {"Mixtral", "num_experts_per_tok", 2},
    {"Granite", "max_position_embeddings", 2048},
    {"Granite", "rms_norm_eps", 1e-6},
    {"Granite", "vocab_size", 32'000},
    {"Granite", "logits_scaling", 1},
    {"SmolLM3", "max_position_embeddings", 32'768},
    {"SmolLM3", "num_key_value_heads", 4},
    {"SmolLM3", "rms_norm_eps", 1e-6},
    {"SmolLM3", "rope_theta", 2e6},
    {"SmolLM3", "vocab_size", 128'256},
    {"Ministral3", "max_position_embeddings", 262'144},
    {"Ministral3", "num_key_value_heads", 8},
    {"Ministral3", "head_dim", 128},
    {"Ministral3", "rms_norm_eps", 1e-5},
    {"Ministral3", "vocab_size", 131'072},
    {"Qwen2", "max_position_embeddings", 32'768},
    {"Qwen2", "num_key_value_heads", 32},
    {"Qwen2", "rms_norm_eps", 1e-6},
    {"Qwen2Moe", "max_position_embeddings", 32'768},
    {"Qwen2Moe", "num_key_value_heads", 16},
    {"Qwen2Moe", "rms_norm_eps", 1e-6},
    {"Qwen2Moe", "num_experts", 60},
    {"Qwen2Moe", "num_experts_per_tok", 4},
    {"Qwen2Moe", "moe_intermediate_size", 1408},
    {"Qwen2Moe", "shared_expert_intermediate_size", 5632},
    {"Qwen3", "max_position_embeddings", 32'768},
    {"Qwen3", "num_key_value_heads", 32},
    {"Qwen3", "head_dim", 128},
    {"Qwen3", "rms_norm_eps", 1e-6},
    {"Qwen3Moe", "max_position_embeddings", 32'768},
    {"Qwen3Moe", "num_key_value_heads", 4},
    {"Qwen3Moe", "rms_norm_eps", 1e-6},
    {"Qwen3Moe", "num_experts", 128},
    {"Qwen3Moe", "num_experts_per_tok", 8},
    {"Qwen3Moe", "moe_intermediate_size", 768},
    {"Qwen3_5", "max_position_embeddings", 32'768},
    {"Qwen3_5", "num_key_value_heads", 4},
    {"Qwen3_5", "head_dim", 256},
    {"Qwen3_5", "rms_norm_eps", 1e-6},
    {"Qwen3_5", "linear_conv_kernel_dim", 4},
    {"Qwen3_5", "linear_key_head_dim", 128},
    {"Qwen3_5", "linear_value_head_dim", 128},
    {"Qwen3_5", "linear_num_key_heads", 16},
    {"Qwen3_5", "linear_num_value_heads", 32},
    {"Qwen3_5Moe", "max_position_embeddings", 32'768},
    {"Qwen3_5Moe", "num_key_value_heads", 2},
    {"Qwen3_5Moe", "head_dim", 256},
    {"Qwen3_5Moe", "rms_norm_eps", 1e-6},
    {"Qwen3_5Moe", "linear_conv_kernel_dim", 4},
    {"Qwen3_5Moe", "linear_key_head_dim", 128},
    {"Qwen3_5Moe", "linear_value_head_dim", 128},
    {"Qwen3_5Moe", "linear_num_key_heads", 16},
    {"Qwen3_5Moe", "linear_num_value_heads", 32},
    {"Qwen3_5Moe", "num_experts", 256},
    {"Qwen3_5Moe", "num_experts_per_tok", 8},
    {"Qwen3_5Moe", "moe_intermediate_size", 512},
    {"Qwen3_5Moe", "shared_expert_intermediate_size", 512},
    {"Gemma2", "max_position_embeddings", 8192},
    {"Gemma2", "num_attention_heads", 8},
    {"Gemma2", "num_key_value_heads", 4},
    {"Gemma2", "head_dim", 256},
    {"Gemma2", "rms_norm_eps", 1e-6},
    {"Gemma2", "attn_logit_softcapping", 50},
    {"Gemma2", "final_logit_softcapping", 30},
    {"Gemma2", "sliding_window", 4096},
    {"Gemma3", "sliding_window", 4096},
    {"Gemma3Text", "max_position_embeddings", 131'072},
    {"Gemma3Text", "num_attention_heads", 8},
    {"Gemma3Text", "num_key_value_heads", 4},
    {"Gemma3Text", "head_dim", 256},
    {"Gemma3Text", "rms_norm_eps", 1e-6},
    {"Gemma3Text", "rope_theta", 1e6},
    {"Gemma3Text", "rope_local_base_freq", 10'000},
    {"Gemma3Text", "sliding_window", 4096},
    {"Gemma4", "sliding_window", 512},
    {"Gemma4", "global_head_dim", 512},
    {"Gemma4", "head_dim", 256},
    {"GptOss", "max_position_embeddings", 131'072},
    {"GptOss", "num_key_value_heads", 8},
    {"GptOss", "head_dim", 64},
    {"GptOss", "rms_norm_eps", 1e-5},
    {"GptOss", "rope_theta", 150'000},
    {"GptOss", "num_local_experts", 128},
    {"GptOss", "num_experts_per_tok", 4},
    {"GptOss", "sliding_window", 128},
    {"Phi3", "max_position_embeddings", 4096},
    {"Phi3", "original_max_position_embeddings", 4096},
    {"Phi3", "rms_norm_eps", 1e-5},
    {"Phi3", "rope_theta", 10'000},
    {"Olmo2", "max_position_embeddings", 2048},
    {"Olmo2", "rms_norm_eps", 1e-5},
    {"Olmo3", "max_position_embeddings", 2048},
    {"Olmo3", "rms_norm_eps", 1e-5},
    {"Olmo3", "rope_theta", 500'000},
    {"Olmo3", "sliding_window", 4096},
    {"Glm4", "max_position_embeddings", 131'072},
    {"Glm4", "num_key_value_heads", 2},
    {"Glm4", "head_dim", 128},
    {"Glm4", "rms_norm_eps", 0.00000015625},
    {"Bert", "max_position_embeddings", 512},
    {"Bert", "layer_norm_eps", 1e-12},
    {"DeepseekV2", "max_position_embeddings", 2048},
    {"DeepseekV2", "rms_norm_eps", 1e-6},
    {"DeepseekV3", "max_position_embeddings", 4096},
    {"DeepseekV3", "rms_norm_eps", 1e-6},
    {"DeepseekV3", "norm_topk_prob", 1},
    {"DeepseekV3", "routed_scaling_factor", 2.5},
});

constexpr auto kTasks = std::to_array<std::string_view>(
    {"ForCausalLM", "ForConditionalGeneration", "ForMaskedLM", "ForSequenceClassification", "Model"});

}  // namespace

std::string_view family_of_class(std::string_view class_name) {
  for (const std::string_view task : kTasks)
    if (class_name.ends_with(task)) class_name.remove_suffix(task.size());
  if (class_name == "LLaMA") return "Llama";
  if (class_name == "Camembert") return "Bert";
  return class_name;
}

std::optional<double> class_default(std::string_view family, std::string_view field) {
  const auto* const row =
      std::ranges::find_if(kDefaults, [&](const Default& one) { return one.family == family && one.field == field; });
  return row == kDefaults.end() ? std::nullopt : std::optional(row->value);
}

}  // namespace weightfs::mapping
