#include <fmt/core.h>

#include <algorithm>

#include "formats/mapping/config/model_settings.h"

namespace weightfs::mapping {
namespace {

constexpr uint32_t kDefaultHeads = 8;

// By layer_types; its default has full attention in each sixth layer and in the last.
std::vector<bool> layers_with_window(Settings& settings) {
  const uint32_t layers = settings.layers();
  std::vector<bool> out = layers_of_type(settings, layers, "sliding_attention");
  for (uint32_t i = 0; out.size() < layers; ++i) out.push_back((i + 1) % 6 != 0 && i + 1 < layers);
  return out;
}

// A field of the first layer with full attention, in the form of transformers 5: an object for each layer that differs.
Integer of_full_layers(Settings& settings, std::string_view name) {
  const summary::Fields layers = settings.fields().object({"per_layer_config"});
  if (!layers) return std::nullopt;
  if (layers.map()->size() > kMaxBlocks) {
    settings.refuse("config.json: per_layer_config has more layers than the maximum");
    return std::nullopt;
  }
  const std::vector<bool> has_window = layers_with_window(settings);
  for (size_t i = 0; i < has_window.size(); ++i) {
    const summary::Fields layer = layers.object({std::to_string(i)});
    if (has_window[i] || !layer.has(name)) continue;
    return settings.integer_in(layer, {name}, 1);
  }
  return std::nullopt;
}

// The feed-forward of layers that share their keys and values is twice as wide.
void add_double_widths(const ModelSettings& model, uint32_t shared) {
  const uint32_t size = model.settings.required({"intermediate_size"});
  if (size > INT32_MAX / 2) return model.settings.refuse("config.json: intermediate_size is too large");
  std::vector<int32_t> sizes;
  for (uint32_t i = 0; i < model.blocks; ++i)
    sizes.push_back(static_cast<int32_t>(i < model.blocks - shared ? size : 2 * size));
  model.keys.i32s(model.key("feed_forward_length"), sizes);
}

void add_heads_of_keys(const ModelSettings& model, const std::vector<bool>& has_window) {
  Integer full = model.settings.integer({"num_global_key_value_heads"}, 1);
  if (!full) full = of_full_layers(model.settings, "num_key_value_heads");
  const Integer sliding = model.settings.integer({"num_key_value_heads"}, 1);
  if (!full || !sliding) return;
  const uint32_t heads = model.settings.integer({"num_attention_heads"}, 1).value_or(kDefaultHeads);
  std::vector<int32_t> counts;
  for (const bool slides : has_window) {
    const uint32_t count = slides ? *sliding : *full;
    if (heads % count != 0)
      return model.settings.refuse(
          fmt::format("config.json: {} heads are not a multiple of {} for keys and values", heads, count));
    counts.push_back(static_cast<int32_t>(count));
  }
  model.keys.i32s(model.key("attention.head_count_kv"), counts);
}

}  // namespace

uint32_t head_dim_of_full_layers(Settings& settings) {
  Integer size = settings.integer_in(settings.fields(), {"global_head_dim"}, 1);
  if (!size) size = of_full_layers(settings, "head_dim");
  if (!size) size = settings.required({"global_head_dim"});
  if (*size <= kMaxHeadDim) return *size;
  settings.refuse(fmt::format("config.json: global_head_dim is {}, the maximum is {}", *size, kMaxHeadDim));
  return 1;
}

void add_gemma2_keys(const ModelSettings& model) {
  Settings& settings = model.settings;
  refuse_rope_scaling(model);
  const uint32_t heads = settings.heads();
  const uint32_t head_dim = settings.head_dim();
  model.u32("context_length", settings.required({"max_position_embeddings"}));
  model.u32("embedding_length", settings.required({"hidden_size"}));
  model.u32("block_count", model.blocks);
  model.u32("feed_forward_length", settings.required({"intermediate_size"}));
  model.u32("attention.head_count", heads);
  model.u32("attention.head_count_kv", settings.heads_of_keys().value_or(heads));
  model.f32("attention.layer_norm_rms_epsilon", settings.real({"rms_norm_eps"}));
  model.u32("attention.key_length", head_dim);
  model.u32("attention.value_length", head_dim);
  model.keys.u32("general.file_type", model.file_type);
  // llama.cpp has no Gemma 2 without them: it takes its own numbers.
  for (const std::string_view name : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    const Real cap = settings.real({name});
    if (cap.value_or(0) == 0) settings.lacks(name);
    model.f32(name, cap);
  }
  model.u32("attention.sliding_window", settings.integer({"sliding_window"}));
}

// The defaults are those of the class, where the converter writes them.
void add_gemma3_keys(const ModelSettings& model) {
  Settings& settings = model.settings;
  const summary::Fields& fields = settings.fields();
  const uint32_t head_dim = settings.stated_head_dim().value_or(256);
  model.u32("context_length", settings.integer({"max_position_embeddings"}, 1).value_or(131'072));
  const uint32_t heads = settings.integer({"num_attention_heads"}, 1).value_or(kDefaultHeads);
  const uint32_t heads_of_keys = settings.integer({"num_key_value_heads"}, 1).value_or(4);
  if (heads % heads_of_keys != 0)
    settings.refuse(
        fmt::format("config.json: {} heads are not a multiple of {} for keys and values", heads, heads_of_keys));
  model.u32("attention.head_count", heads);
  model.f32("attention.layer_norm_rms_epsilon", settings.real({"rms_norm_eps"}).value_or(1e-6));
  model.u32("attention.key_length", head_dim);
  model.u32("attention.value_length", head_dim);
  model.f32("rope.freq_base", model.rope.theta.value_or(1e6));
  if (fields.has("attn_logit_softcapping")) settings.refuse("config.json: gemma3 has no attn_logit_softcapping");
  const Real cap = settings.real({"final_logit_softcapping"});
  if (cap && *cap != 0) model.f32("final_logit_softcapping", cap);
  if (settings.integer({"sliding_window_pattern"}) != 1)
    model.u32("attention.sliding_window", settings.integer({"sliding_window"}));
  model.u32("attention.head_count_kv", heads_of_keys);
}

void add_gemma4_keys(const ModelSettings& model) {
  Settings& settings = model.settings;
  add_gemma3_keys(model);
  const uint32_t shared = settings.integer({"num_kv_shared_layers"}).value_or(0);
  if (shared > model.blocks)
    return settings.refuse(fmt::format("config.json: {} of {} layers cannot share keys", shared, model.blocks));
  model.u32("attention.shared_kv_layers", shared);
  model.u32("embedding_length_per_layer_input", settings.integer({"hidden_size_per_layer_input"}).value_or(0));
  const std::vector<bool> has_window = layers_with_window(settings);
  model.keys.flags(model.key("attention.sliding_window_pattern"), has_window);
  const uint32_t full = head_dim_of_full_layers(settings);
  const uint32_t sliding = settings.required({"head_dim"});
  model.u32("attention.key_length", full);
  model.u32("attention.value_length", full);
  model.u32("attention.key_length_swa", sliding);
  model.u32("attention.value_length_swa", sliding);
  model.u32("expert_feed_forward_length", settings.integer({"expert_intermediate_size", "moe_intermediate_size"}));
  if (settings.flag("use_double_wide_mlp") == true) add_double_widths(model, shared);
  add_heads_of_keys(model, has_window);
  const double partial = model.rope.by_attention ? 1.0 : model.rope.partial.value_or(1.0);
  model.u32("rope.dimension_count", full);
  model.u32("rope.dimension_count_swa", static_cast<uint32_t>(std::min(partial, 1.0) * sliding));
}

}  // namespace weightfs::mapping
