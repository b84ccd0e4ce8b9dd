#include <fmt/core.h>

#include <array>

#include "base/text.h"
#include "formats/mapping/hub/config_fields.h"

namespace weightfs::mapping {
namespace {

struct HubClass {
  std::string_view class_name;
  std::string_view model_type;
};

// In the order of Arch. The class of the text model; where several have the same tensors, the most common one.
constexpr auto kHubClasses = std::to_array<HubClass>({
    {"LlamaForCausalLM", "llama"},
    {"GraniteForCausalLM", "granite"},
    {"SmolLM3ForCausalLM", "smollm3"},
    {"Ministral3ForCausalLM", "ministral3"},
    {"Qwen2ForCausalLM", "qwen2"},
    {"Qwen2MoeForCausalLM", "qwen2_moe"},
    {"Qwen3ForCausalLM", "qwen3"},
    {"Qwen3MoeForCausalLM", "qwen3_moe"},
    {"Qwen3_5ForCausalLM", "qwen3_5_text"},
    {"Qwen3_5MoeForCausalLM", "qwen3_5_moe_text"},
    {"Gemma2ForCausalLM", "gemma2"},
    {"Gemma3ForCausalLM", "gemma3_text"},
    {"Gemma4ForCausalLM", "gemma4_text"},
    {"GptOssForCausalLM", "gpt_oss"},
    {"Phi3ForCausalLM", "phi3"},
    {"Olmo2ForCausalLM", "olmo2"},
    {"Glm4ForCausalLM", "glm4"},
    {"BertModel", "bert"},
    {"DeepseekV2ForCausalLM", "deepseek_v2"},
});
static_assert(kHubClasses.size() == static_cast<size_t>(Arch::deepseek2) + 1);

// DeepSeek V3 corrects the scores of its experts, or takes their sigmoid.
bool is_deepseek_v3(const HubConfig& config) {
  constexpr uint64_t kSigmoid = 2;
  const uint64_t dense = config.number("leading_dense_block_count").value_or(0);
  return config.number("expert_gating_func") == kSigmoid ||
         config.tensor(fmt::format("blk.{}.exp_probs_b.bias", dense)).has_value();
}

HubClass class_of(const HubConfig& config) {
  if (config.arch() == Arch::llama && config.number("expert_count").value_or(0) > 0)
    return {"MixtralForCausalLM", "mixtral"};
  if (config.arch() == Arch::olmo2 && config.keys().has("attention.sliding_window"))
    return {"Olmo3ForCausalLM", "olmo3"};
  if (config.arch() == Arch::deepseek2 && is_deepseek_v3(config)) return {"DeepseekV3ForCausalLM", "deepseek_v3"};
  return kHubClasses.at(static_cast<size_t>(config.arch()));
}

// The types of layers, by a list with true for each that has the first type.
void add_layer_types(HubConfig& config, std::string_view key, std::string_view yes, std::string_view no) {
  const List* const flags = config.keys().list(key);
  if (flags == nullptr) return;
  const auto* const layers = config.fields().find_as<uint64_t>("num_hidden_layers");
  if (layers == nullptr) return;
  if (flags->size() < *layers)
    return config.refuse(fmt::format("{} has {} entries for {} layers", key, flags->size(), *layers));
  List types;
  for (size_t i = 0; i < *layers; ++i) {
    const auto* const flag = std::get_if<bool>(&(*flags)[i]);
    types.emplace_back(flag != nullptr && *flag ? yes : no);
  }
  config.set("layer_types", Value(std::move(types)));
}

// Whether a linear layer of all blocks has a bias: looked up in the first block.
void add_bias(HubConfig& config, std::string_view field, std::string_view tensor) {
  config.set(field, Value(config.tensor(tensor).has_value()));
}

// The fraction of a head that is rotated.
void add_partial_rotation(HubConfig& config, uint64_t head_dim) {
  const summary::Number rotated = config.number("rope.dimension_count");
  if (rotated && head_dim > 0 && *rotated < head_dim)
    config.set("partial_rotary_factor", Value(static_cast<double>(*rotated) / static_cast<double>(head_dim)));
}

uint64_t number_in(const HubConfig& config, std::string_view name) {
  const auto* const number = config.fields().find_as<uint64_t>(name);
  return number == nullptr ? 0 : *number;
}

void add_llama_fields(HubConfig& config) {
  if (config.number("expert_count").value_or(0) > 0) return;
  add_bias(config, "attention_bias", "blk.0.attn_q.bias");
  add_bias(config, "mlp_bias", "blk.0.ffn_up.bias");
}

// The scale of attention, which no key has: as llama.cpp computes it, which tells the 27B models by their layers.
void add_query_scale(HubConfig& config, uint64_t layers_of_27b) {
  const uint64_t heads = number_in(config, "num_attention_heads");
  const bool is_27b = number_in(config, "num_hidden_layers") == layers_of_27b && heads > 0;
  config.set("query_pre_attn_scalar",
             Value(is_27b ? number_in(config, "hidden_size") / heads : number_in(config, "head_dim")));
}

void add_gemma4_widths(HubConfig& config) {
  const List* const widths = config.keys().list("feed_forward_length");
  if (widths == nullptr || widths->empty())
    return config.set("intermediate_size", Value(config.required("feed_forward_length")));
  const summary::Number first = summary::number_of(widths->front());
  const summary::Number last = summary::number_of(widths->back());
  if (!first || !last || (*last != *first && *last != 2 * *first))
    return config.refuse("gemma4.feed_forward_length is not that of a class of transformers");
  config.set("intermediate_size", first);
  config.set("use_double_wide_mlp", Value(*last != *first));
}

// The heads of keys, which may differ between layers with a sliding window and those with full attention.
void add_gemma4_heads(HubConfig& config) {
  const List* const counts = config.keys().list("attention.head_count_kv");
  const List* const windows = config.keys().list("attention.sliding_window_pattern");
  if (counts == nullptr || windows == nullptr || counts->size() != windows->size())
    return config.set("num_key_value_heads", Value(config.required("attention.head_count_kv")));
  for (size_t i = 0; i < counts->size(); ++i) {
    const auto* const slides = std::get_if<bool>(&(*windows)[i]);
    const bool has_window = slides != nullptr && *slides;
    config.set(has_window ? "num_key_value_heads" : "num_global_key_value_heads", summary::number_of((*counts)[i]));
  }
}

// Layers with full attention that have no values of their own take the keys.
bool shares_keys_as_values(const HubConfig& config) {
  const List* const windows = config.keys().list("attention.sliding_window_pattern");
  for (size_t i = 0; windows != nullptr && i < windows->size(); ++i) {
    const auto* const slides = std::get_if<bool>(&(*windows)[i]);
    if (slides == nullptr || *slides) continue;
    return config.tensor(fmt::format("blk.{}.attn_k.weight", i)) &&
           !config.tensor(fmt::format("blk.{}.attn_v.weight", i));
  }
  return false;
}

void add_gemma4_fields(HubConfig& config) {
  add_gemma4_widths(config);
  add_gemma4_heads(config);
  add_layer_types(config, "attention.sliding_window_pattern", "sliding_attention", "full_attention");
  config.set("attention_k_eq_v", Value(shares_keys_as_values(config)));
  if (const auto tokens = config.tensor("per_layer_token_embd.weight"); tokens && tokens->shape.size() == 2)
    config.set("vocab_size_per_layer_input", Value(tokens->shape[0]));
  if (config.number("expert_count").value_or(0) > 0) config.set("enable_moe_block", Value(true));
}

void add_qwen35_fields(HubConfig& config) {
  const uint64_t heads = config.required("ssm.time_step_rank");
  const uint64_t width = config.required("ssm.inner_size");
  if (heads == 0 || width % heads != 0)
    return config.refuse(fmt::format("{} value heads for {} numbers", heads, width));
  config.set("linear_value_head_dim", Value(width / heads));
  add_layer_types(config, "attention.recurrent_layers", "linear_attention", "full_attention");
  config.set("attn_output_gate", Value(true));
  config.set("mtp_num_hidden_layers", config.number("nextn_predict_layers"));
}

void add_deepseek_fields(HubConfig& config) {
  const bool has_latent_lengths = config.keys().has("attention.key_length_mla");
  const uint64_t key = config.required(has_latent_lengths ? "attention.key_length_mla" : "attention.key_length");
  const uint64_t value = config.required(has_latent_lengths ? "attention.value_length_mla" : "attention.value_length");
  const uint64_t rotated = config.required("rope.dimension_count");
  if (key < rotated) return config.refuse(fmt::format("{} of {} numbers of a key are rotated", rotated, key));
  const summary::Number rank = config.number("attention.q_lora_rank");
  config.set("q_lora_rank", rank ? Value(*rank) : Value());
  config.set("kv_lora_rank", Value(config.required("attention.kv_lora_rank")));
  config.set("qk_nope_head_dim", Value(key - rotated));
  config.set("qk_rope_head_dim", Value(rotated));
  config.set("v_head_dim", Value(value));
  const bool is_v3 = is_deepseek_v3(config);
  const bool has_groups = config.number("expert_group_count").value_or(1) > 1;
  config.set("topk_method", Value(is_v3 ? "noaux_tc" : has_groups ? "group_limited_greedy" : "greedy"));
  config.set("scoring_func", Value(is_v3 ? "sigmoid" : "softmax"));
  config.set("norm_topk_prob", Value(config.keys().flag("expert_weights_norm").value_or(false)));
}

// Blocks of MXFP4 are left packed, in the form that transformers reads.
void add_gpt_oss_fields(HubConfig& config) {
  config.set("attention_bias", Value(true));
  const auto experts = config.tensor("blk.0.ffn_down_exps.weight");
  if (!experts || experts->dtype->name != "mxfp4") return;
  Map quantisation;
  quantisation.append("quant_method", "mxfp4");
  List others;
  for (const std::string_view name :
       {"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"})
    others.emplace_back(name);
  quantisation.append("modules_to_not_convert", std::move(others));
  config.set("quantization_config", Value(std::move(quantisation)));
}

void add_phi3_fields(HubConfig& config) {
  const uint64_t heads = number_in(config, "num_attention_heads");
  if (heads > 0) add_partial_rotation(config, number_in(config, "hidden_size") / heads);
  config.set("original_max_position_embeddings", config.number("rope.scaling.original_context_length"));
  const summary::Number window = config.number("attention.sliding_window");
  config.set("sliding_window", window.value_or(0) > 0 ? Value(*window) : Value());
}

void add_glm4_fields(HubConfig& config) {
  add_partial_rotation(config, number_in(config, "head_dim"));
  add_bias(config, "attention_bias", "blk.0.attn_q.bias");
}

// A classifier has a class of its own, but tensors that have no names here: only the encoder is shown.
void add_bert_fields(HubConfig& config) {
  const auto types = config.tensor("token_types.weight");
  if (types && types->shape.size() == 2) config.set("type_vocab_size", Value(types->shape[0]));
}

// The function of the feed-forward, which is fixed by the architecture.
void add_activation(HubConfig& config) {
  switch (config.arch()) {
    case Arch::gemma2:
    case Arch::gemma3:
    case Arch::gemma4:
      return config.set("hidden_activation", Value("gelu_pytorch_tanh"));
    case Arch::bert:
      return config.set("hidden_act", Value("gelu"));
    default:
      return config.set("hidden_act", Value("silu"));
  }
}

}  // namespace

void add_class(HubConfig& config) {
  const HubClass row = class_of(config);
  config.set("architectures", Value(List{Value(row.class_name)}));
  config.set("model_type", Value(row.model_type));
}

void add_fields_of_class(HubConfig& config) {
  constexpr uint64_t kLayersOfGemma2 = 46, kLayersOfGemma3 = 62;  // of 27B
  add_activation(config);
  switch (config.arch()) {
    case Arch::llama:
    case Arch::granite:
    case Arch::smollm3:
      return add_llama_fields(config);
    case Arch::qwen2moe:
    case Arch::qwen3moe:
      // llama.cpp fixes this by the architecture. The class of Qwen 3 has another default.
      return config.set("norm_topk_prob", Value(config.arch() == Arch::qwen3moe));
    case Arch::qwen35:
    case Arch::qwen35moe:
      return add_qwen35_fields(config);
    case Arch::gemma2:
      return add_query_scale(config, kLayersOfGemma2);
    case Arch::gemma3:
      return add_query_scale(config, kLayersOfGemma3);
    case Arch::gemma4:
      return add_gemma4_fields(config);
    case Arch::gpt_oss:
      return add_gpt_oss_fields(config);
    case Arch::phi3:
      return add_phi3_fields(config);
    case Arch::olmo2:
      return add_layer_types(config, "attention.sliding_window_pattern", "sliding_attention", "full_attention");
    case Arch::glm4:
      return add_glm4_fields(config);
    case Arch::bert:
      return add_bert_fields(config);
    case Arch::deepseek2:
      return add_deepseek_fields(config);
    case Arch::mistral3:
    case Arch::qwen2:
    case Arch::qwen3:
      return;
  }
}

}  // namespace weightfs::mapping
