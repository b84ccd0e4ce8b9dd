#include "formats/mapping/hub/config_fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace weightfs::mapping {
namespace {

template <class... Archs>
constexpr uint32_t archs(Archs... all) {
  return (bit(all) | ...);
}

constexpr uint32_t kEach = 0xFFFFFFFF;
constexpr uint32_t kEncoders = archs(Arch::bert);
constexpr uint32_t kQwenMoe = archs(Arch::qwen2moe, Arch::qwen3moe, Arch::qwen35moe);
constexpr uint32_t kLatent = archs(Arch::deepseek2);
constexpr uint32_t kGemmas = archs(Arch::gemma2, Arch::gemma3, Arch::gemma4);

enum class Form : uint8_t { number, real, flag };
enum class Need : uint8_t { optional, required };

struct FieldRow {
  uint32_t architectures;
  std::string_view key;  // without the architecture
  std::string_view field;
  Form form = Form::number;
  Need need = Need::optional;
};

// The reverse of what the converter writes (formats/mapping/config). Fields that are made of several keys are
// elsewhere.
constexpr auto kFields = std::to_array<FieldRow>({
    {kEach, "embedding_length", "hidden_size", Form::number, Need::required},
    {kEach & ~archs(Arch::qwen35moe, Arch::gemma4), "feed_forward_length", "intermediate_size", Form::number,
     Need::required},
    {kEach, "attention.head_count", "num_attention_heads", Form::number, Need::required},
    {kEach, "context_length", "max_position_embeddings", Form::number, Need::required},
    {kEach & ~kEncoders, "attention.layer_norm_rms_epsilon", "rms_norm_eps", Form::real, Need::required},
    {kEncoders, "attention.layer_norm_epsilon", "layer_norm_eps", Form::real, Need::required},
    {kEach & ~(kEncoders | kLatent | archs(Arch::gemma4, Arch::granite, Arch::phi3)), "attention.key_length",
     "head_dim"},
    {kEach & ~kEncoders, "attention.causal", "is_causal", Form::flag},

    {archs(Arch::llama, Arch::gpt_oss), "expert_count", "num_local_experts"},
    {kQwenMoe | archs(Arch::gemma4), "expert_count", "num_experts"},
    {kLatent, "expert_count", "n_routed_experts"},
    {kEach & ~archs(Arch::gemma4), "expert_used_count", "num_experts_per_tok"},
    {archs(Arch::gemma4), "expert_used_count", "top_k_experts"},
    {kQwenMoe | kLatent | archs(Arch::gemma4), "expert_feed_forward_length", "moe_intermediate_size"},
    {kQwenMoe, "expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    {kLatent, "expert_shared_count", "n_shared_experts"},
    {kLatent, "expert_group_count", "n_group"},
    {kLatent, "expert_group_used_count", "topk_group"},
    {kLatent, "expert_weights_scale", "routed_scaling_factor", Form::real},
    {kLatent, "leading_dense_block_count", "first_k_dense_replace"},

    {archs(Arch::granite), "attention.scale", "attention_multiplier", Form::real},
    {archs(Arch::granite), "embedding_scale", "embedding_multiplier", Form::real},
    {archs(Arch::granite), "residual_scale", "residual_multiplier", Form::real},
    {archs(Arch::granite), "logit_scale", "logits_scaling", Form::real},

    {archs(Arch::gemma2), "attn_logit_softcapping", "attn_logit_softcapping", Form::real},
    {kGemmas, "final_logit_softcapping", "final_logit_softcapping", Form::real},
    {kGemmas | archs(Arch::gpt_oss, Arch::olmo2), "attention.sliding_window", "sliding_window"},
    {archs(Arch::gemma4), "attention.key_length", "global_head_dim", Form::number, Need::required},
    {archs(Arch::gemma4), "attention.key_length_swa", "head_dim", Form::number, Need::required},
    {archs(Arch::gemma4), "attention.shared_kv_layers", "num_kv_shared_layers"},
    {archs(Arch::gemma4), "embedding_length_per_layer_input", "hidden_size_per_layer_input"},

    {archs(Arch::qwen35, Arch::qwen35moe), "ssm.conv_kernel", "linear_conv_kernel_dim", Form::number, Need::required},
    {archs(Arch::qwen35, Arch::qwen35moe), "ssm.state_size", "linear_key_head_dim", Form::number, Need::required},
    {archs(Arch::qwen35, Arch::qwen35moe), "ssm.group_count", "linear_num_key_heads", Form::number, Need::required},
    {archs(Arch::qwen35, Arch::qwen35moe), "ssm.time_step_rank", "linear_num_value_heads", Form::number,
     Need::required},
    {archs(Arch::qwen35, Arch::qwen35moe), "full_attention_interval", "full_attention_interval"},
});

void add_row(HubConfig& config, const FieldRow& row) {
  const summary::Fields& keys = config.keys();
  switch (row.form) {
    case Form::flag:
      if (const auto flag = keys.flag(row.key)) config.set(row.field, Value(*flag));
      return;
    case Form::real:
      config.set(row.field, keys.real({row.key}));
      break;
    case Form::number:
      config.set(row.field, config.number(row.key));
      break;
  }
  if (row.need == Need::required && config.fields().find(row.field) == nullptr) config.required(row.key);
}

// The classes with a head_dim whose default is not hidden_size / num_attention_heads, as in llama.cpp.
constexpr uint32_t kHeadsOfFixedSize = archs(Arch::qwen3, Arch::qwen3moe, Arch::qwen35, Arch::qwen35moe, Arch::gemma2,
                                             Arch::gemma3, Arch::gpt_oss, Arch::glm4, Arch::mistral3);

void add_head_dim(HubConfig& config) {
  if ((kHeadsOfFixedSize & bit(config.arch())) == 0 || config.fields().find("head_dim") != nullptr) return;
  const uint64_t heads = config.required("attention.head_count");
  const uint64_t width = config.required("embedding_length");
  if (heads == 0 || width % heads != 0)
    return config.refuse(fmt::format("{} heads for an embedding of {} numbers", heads, width));
  config.set("head_dim", Value(width / heads));
}

// llama.cpp has as many for keys as for queries if the key is missing.
void add_key_heads(HubConfig& config) {
  if (config.arch() == Arch::bert || config.arch() == Arch::gemma4) return;
  const uint64_t heads = config.required("attention.head_count");
  const bool is_stated = config.arch() != Arch::deepseek2 && config.keys().has("attention.head_count_kv");
  config.set("num_key_value_heads", Value(is_stated ? config.required("attention.head_count_kv") : heads));
}

// Tokens by the rows of the embeddings, which a GGUF of Gemma 3 has fewer of than its repository.
void add_vocabulary_size(HubConfig& config) {
  const auto embeddings = config.tensor("token_embd.weight");
  if (!embeddings || embeddings->shape.size() != 2)
    return config.refuse("tensor \"token_embd.weight\" is missing, or is not a matrix");
  config.set("vocab_size", Value(embeddings->shape[0]));
  if (config.arch() != Arch::bert) config.set("tie_word_embeddings", Value(!config.tensor("output.weight")));
}

void add_special_tokens(HubConfig& config) {
  constexpr auto kTokens = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"tokenizer.ggml.bos_token_id", "bos_token_id"},
       {"tokenizer.ggml.eos_token_id", "eos_token_id"},
       {"tokenizer.ggml.padding_token_id", "pad_token_id"}});
  for (const auto& [key, field] : kTokens) {
    // bos and eos of an encoder are [CLS] and [SEP], which its class has no fields for.
    if (config.arch() == Arch::bert && field != "pad_token_id") continue;
    const Value* const value = config.gguf().metadata.find(key);
    if (value != nullptr) config.set(field, summary::number_of(*value));
  }
}

// The type that model.safetensors has most of its numbers in: that of the matrices, if all of them have 16 bits. MXFP4
// of gpt-oss stays as it is.
std::string_view torch_dtype(const Model& gguf, Arch arch) {
  std::string_view found;
  for (size_t i = 0; i < gguf.tensors.size(); ++i) {
    if (gguf.tensors.shape(i).size() < 2) continue;
    const DType& type = *gguf.tensors.dtype(i);
    if (is_quantised(type) && (type.name != "mxfp4" || arch != Arch::gpt_oss)) return "float32";
    if (found.empty() && (type.name == "bfloat16" || type.name == "float16")) found = type.name;
  }
  return found.empty() ? "float32" : found;
}

}  // namespace

HubConfig::HubConfig(const Model& gguf, const Architecture& architecture)
    : gguf_(gguf),
      architecture_(architecture),
      keys_(&gguf.metadata, "the keys", warnings_, std::string(architecture.name) + ".") {}

summary::Number HubConfig::number(std::string_view key) const {
  const Value* const value = keys_.find(key);
  const auto* const list = value == nullptr ? nullptr : std::get_if<List>(value);
  if (list == nullptr) return keys_.number({key});
  if (list->empty()) return std::nullopt;
  const summary::Number first = summary::number_of(list->front());
  const bool is_same = std::ranges::all_of(*list, [&](const Value& one) { return summary::number_of(one) == first; });
  return is_same ? first : std::nullopt;
}

uint64_t HubConfig::required(std::string_view key) {
  if (const summary::Number found = number(key)) return *found;
  const std::string_view what = keys_.list(key) == nullptr ? "is missing" : "differs between layers";
  refuse(fmt::format("the key {}.{} {}; config.json needs one number", architecture_.name, key, what));
  return 0;
}

std::optional<TensorView> HubConfig::tensor(std::string_view name) const {
  for (size_t i = 0; i < gguf_.tensors.size(); ++i)
    if (gguf_.tensors.name(i) == name) return gguf_.tensors[i];
  return std::nullopt;
}

void HubConfig::refuse(std::string message) {
  if (refusal_.empty()) refusal_ = std::move(message);
}

Result<void> HubConfig::outcome() const {
  if (!refusal_.empty()) return failure(Code::unsupported, refusal_);
  return {};
}

void add_common_fields(HubConfig& config) {
  for (const FieldRow& row : kFields)
    if ((row.architectures & bit(config.arch())) != 0) add_row(config, row);
  const uint64_t blocks = config.required("block_count");
  const uint64_t further = config.number("nextn_predict_layers").value_or(0);
  if (blocks == 0 || further >= blocks)
    config.refuse(fmt::format("{} of {} blocks predict further tokens", further, blocks));
  else
    config.set("num_hidden_layers", Value(blocks - further));
  add_key_heads(config);
  add_head_dim(config);
  add_vocabulary_size(config);
  add_special_tokens(config);
  config.set("torch_dtype", Value(torch_dtype(config.gguf(), config.arch())));
}

}  // namespace weightfs::mapping
