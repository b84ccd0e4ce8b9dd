#include <fmt/core.h>

#include <array>

#include "base/text.h"
#include "formats/mapping/config/model_settings.h"

namespace weightfs::mapping {
namespace {

constexpr uint32_t kMaxExperts = 1024;  // LLAMA_MAX_EXPERTS
constexpr size_t kSections = 4;         // of rope.dimension_sections

void add_sizes(const ModelSettings& model) {
  Settings& settings = model.settings;
  model.u32("block_count", model.blocks);
  model.u32("context_length", settings.integer({"max_position_embeddings", "n_ctx", "n_positions", "max_length",
                                                "max_sequence_length", "model_max_length"},
                                               1));
  model.u32("embedding_length", settings.integer({"hidden_size", "n_embd", "dim"}, 1));
  model.u32("feed_forward_length", settings.integer({"prefix_dense_intermediate_size", "dense_intermediate_size",
                                                     "intermediate_size", "n_inner", "hidden_dim"}));
  // Gemma 3 has defaults of its own, which stand later.
  const bool is_gemma = model.arch() == Arch::gemma3 || model.arch() == Arch::gemma4;
  const Integer heads = settings.integer({"num_attention_heads", "n_head", "n_heads"}, 1);
  if (heads || !is_gemma) model.u32("attention.head_count", heads);
  if (model.arch() == Arch::deepseek2)
    model.u32("attention.head_count_kv", 1);  // MLA is shown as one group
  else if (heads)
    model.u32("attention.head_count_kv", settings.heads_of_keys());
  if (settings.flag("is_causal") == false) model.keys.flag(model.key("attention.causal"), false);
}

void add_yarn(const ModelSettings& model) {
  Settings& settings = model.settings;
  const RopeSettings& rope = model.rope;
  const Integer original =
      rope.by_attention ? settings.integer_in(rope.full, {"original_max_position_embeddings"}, 1) : rope.original;
  if (!original) settings.lacks("rope_scaling.original_max_position_embeddings");
  model.u32("rope.scaling.original_context_length", original);
  model.f32("rope.scaling.yarn_ext_factor", settings.real_in(rope.full, {"extrapolation_factor"}));
  model.f32("rope.scaling.yarn_attn_factor", settings.real_in(rope.full, {"attention_factor", "attn_factor"}));
  model.f32("rope.scaling.yarn_beta_fast", settings.real_in(rope.full, {"beta_fast"}));
  model.f32("rope.scaling.yarn_beta_slow", settings.real_in(rope.full, {"beta_slow"}));
}

}  // namespace

void refuse_rope_scaling(const ModelSettings& model) {
  const std::string& type = model.rope.type;
  if (!type.empty() && type != "default" && type != "dynamic")
    model.settings.refuse(
        fmt::format("config.json: {} has no rope_type {}", model.repository.architecture().name, printable(type)));
}

namespace {

// A kind of scaling that llama.cpp would not apply is refused: the model would be wrong without a sign of it. "dynamic"
// changes nothing before the stated context.
void add_rope_scaling(const ModelSettings& model) {
  const std::string& type = model.rope.type;
  if (type.empty() || type == "default" || type == "dynamic") return;
  if (type == "llama3" && model.repository.architecture().permutes_heads) return;  // the tensor rope_freqs
  if (type == "proportional" && model.arch() == Arch::gemma4) return;
  if (type != "linear" && type != "yarn") return refuse_rope_scaling(model);
  const Real factor = model.settings.real_in(model.rope.full, {"factor"});
  if (!factor) model.settings.lacks("rope_scaling.factor");
  if (factor.value_or(1) <= 0) model.settings.refuse(fmt::format("config.json: a rope_scaling.factor of {}", *factor));
  model.keys.text(model.key("rope.scaling.type"), type);
  model.f32("rope.scaling.factor", factor);
  if (type == "yarn") add_yarn(model);
}

void add_rope_sections(const ModelSettings& model) {
  const List* const list = model.rope.own.list("mrope_section");
  if (list == nullptr) return;
  std::array<int32_t, kSections> sections = {};
  for (size_t i = 0; i < std::min(list->size(), kSections); ++i) {
    const summary::Number number = summary::number_of((*list)[i]);
    if (!number || *number > INT32_MAX)
      return model.settings.refuse("config.json: mrope_section is not a list of sizes");
    sections.at(i) = static_cast<int32_t>(*number);
  }
  model.keys.i32s(model.key("rope.dimension_sections"), sections);
}

uint32_t gating_function(std::string_view name) {
  if (name == "softmax") return 1;
  if (name == "sigmoid") return 2;
  return name == "sqrtsoftplus" ? 4 : 0;
}

// llama.cpp ends the process if these contradict each other.
void check_experts(Settings& settings, uint32_t experts, Integer used, Integer groups, Integer groups_used) {
  if (experts > kMaxExperts)
    settings.refuse(fmt::format("config.json has {} experts, the maximum is {}", experts, kMaxExperts));
  if (!used) return settings.lacks("num_experts_per_tok");
  if (*used == 0 || *used > experts)
    settings.refuse(fmt::format("config.json: {} of {} experts cannot be used", *used, experts));
  if (!groups) return;
  const bool splits = *groups > 1;
  if (*groups >= experts || (splits && experts % *groups != 0))
    settings.refuse(fmt::format("config.json: {} experts cannot be in {} groups", experts, *groups));
  if (splits && (groups_used.value_or(0) == 0 || *groups_used >= *groups))
    settings.refuse(fmt::format("config.json: {} of {} groups cannot be used", groups_used.value_or(0), *groups));
}

// A number of experts used, without experts, is what a dense model has left of another: llama.cpp would end.
void add_experts(const ModelSettings& model) {
  Settings& settings = model.settings;
  const Integer experts = settings.integer({"num_local_experts", "num_experts", "n_routed_experts"});
  model.u32("expert_count", experts);
  if (experts.value_or(0) == 0) return;
  const Integer used = settings.integer({"num_experts_per_tok", "num_experts_per_token", "top_k_experts"});
  const Integer groups = settings.integer({"n_group"});
  const Integer groups_used = settings.integer({"topk_group"});
  check_experts(settings, *experts, used, groups, groups_used);
  model.u32("expert_used_count", used);
  model.u32("expert_group_count", groups);
  model.u32("expert_group_used_count", groups_used);
  std::string function =
      settings.fields().text({"score_function", "scoring_func", "score_func", "moe_router_activation",
                              "moe_router_activation_func", "expert_selection_fn"});
  // The class of transformers knows no other, and does not store it.
  if (function.empty() && settings.family() == "DeepseekV3") function = "sigmoid";
  if (function.empty()) return;
  const uint32_t number = gating_function(function);
  if (number == 0) settings.refuse(fmt::format("config.json: scoring_func {} is not known", printable(function)));
  model.u32("expert_gating_func", number);
}

}  // namespace

void add_common_keys(const ModelSettings& model) {
  Settings& settings = model.settings;
  add_sizes(model);
  add_rope_scaling(model);
  add_rope_sections(model);
  model.f32("rope.freq_base", model.rope.theta);
  model.f32("rope.freq_base_swa", model.rope.theta_swa);
  model.f32("attention.layer_norm_rms_epsilon", settings.real({"rms_norm_eps", "norm_eps"}));
  model.f32("attention.layer_norm_epsilon", settings.real({"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"}));
  add_experts(model);
  if (model.arch() != Arch::granite) {
    const Integer size = settings.stated_head_dim();
    model.u32("attention.key_length", size);
    model.u32("attention.value_length", size);
  }
  model.keys.u32("general.file_type", model.file_type);
}

}  // namespace weightfs::mapping
