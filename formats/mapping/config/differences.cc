#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "formats/mapping/config/model_settings.h"

namespace weightfs::mapping {
namespace {

// Models for which llama.cpp scales queries by the width of the embeddings, by the number of their layers.
constexpr uint32_t kLayersOfGemma2Of27B = 46;
constexpr uint32_t kLayersOfGemma3Of27B = 62;
constexpr uint32_t kStepOfSmolLM3 = 4;

void check_activation(const ModelSettings& model) {
  const Arch arch = model.arch();
  const bool is_gelu = arch == Arch::gemma2 || arch == Arch::gemma3 || arch == Arch::gemma4 || arch == Arch::bert;
  for (const std::string_view name : {"hidden_activation", "hidden_act"}) {
    const std::string stated = model.settings.fields().text({name});
    if (stated.empty()) continue;
    const bool fits = is_gelu ? stated.starts_with("gelu") : stated == "silu" || stated == "swish";
    if (!fits)
      model.settings.refuse(fmt::format("config.json: {} is {}, but {} in llama.cpp", name, printable(stated),
                                        is_gelu ? "gelu" : "silu"));
    return;
  }
}

void check_scale_of_queries(const ModelSettings& model) {
  Settings& settings = model.settings;
  const Real stated = settings.real({"query_pre_attn_scalar"});
  if (!stated) return;
  const bool is_27b = model.layers == (model.arch() == Arch::gemma2 ? kLayersOfGemma2Of27B : kLayersOfGemma3Of27B);
  const Integer heads = settings.integer({"num_attention_heads"}, 1);
  const uint32_t expected =
      is_27b && heads ? settings.required({"hidden_size"}) / *heads : settings.stated_head_dim().value_or(256);
  if (*stated != expected)
    settings.refuse(fmt::format("config.json: query_pre_attn_scalar is {}, but {} in llama.cpp", *stated, expected));
}

void check_layers_without_rope(const ModelSettings& model) {
  const List* const layers = model.settings.fields().list("no_rope_layers");
  if (layers == nullptr) return;
  for (uint32_t i = 0; i < model.layers; ++i) {
    const summary::Number rotates = i < layers->size() ? summary::number_of((*layers)[i]) : std::nullopt;
    if (rotates != ((i + 1) % kStepOfSmolLM3 == 0 ? 0U : 1U))
      return model.settings.refuse("config.json: no_rope_layers is not each fourth layer, as in llama.cpp");
  }
}

void check_weights_of_experts(const ModelSettings& model, bool are_normal) {
  if (model.settings.flag("norm_topk_prob").value_or(are_normal) != are_normal)
    model.settings.refuse(
        fmt::format("config.json: norm_topk_prob is {}, but {} in llama.cpp", !are_normal, are_normal));
}

// llama.cpp has one order of layers for each architecture, but takes a list that a file has.
void add_order_of_layers(const ModelSettings& model, uint32_t step) {
  if (!model.keys.has(model.key("attention.sliding_window"))) return;
  const std::vector<bool> has_window = layers_of_type(model.settings, model.layers, "sliding_attention");
  for (uint32_t i = 0; i < has_window.size(); ++i)
    if (has_window[i] != ((i + 1) % step != 0))
      return model.keys.flags(model.key("attention.sliding_window_pattern"), has_window);
}

}  // namespace

void handle_differences(const ModelSettings& model) {
  check_activation(model);
  switch (model.arch()) {
    case Arch::gemma2:
      check_scale_of_queries(model);
      return add_order_of_layers(model, 2);
    case Arch::gemma3:
      check_scale_of_queries(model);
      return add_order_of_layers(model, 6);
    case Arch::gpt_oss:
      return add_order_of_layers(model, 2);
    case Arch::smollm3:
      return check_layers_without_rope(model);
    case Arch::qwen2moe:
      return check_weights_of_experts(model, false);
    case Arch::qwen3moe:
      return check_weights_of_experts(model, true);
    default:
      return;
  }
}

}  // namespace weightfs::mapping
