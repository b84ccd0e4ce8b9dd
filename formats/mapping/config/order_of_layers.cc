#include <algorithm>

#include "formats/mapping/config/model_settings.h"

namespace weightfs::mapping {
namespace {

constexpr uint32_t kStepOfSmolLM3 = 4;

void check_layers_without_rope(const ModelSettings& model) {
  const List* const layers = model.settings.fields().list("no_rope_layers");
  if (layers == nullptr) return;
  for (uint32_t i = 0; i < model.layers; ++i) {
    const summary::Number rotates = i < layers->size() ? summary::number_of((*layers)[i]) : std::nullopt;
    if (rotates != ((i + 1) % kStepOfSmolLM3 == 0 ? 0U : 1U))
      return model.settings.refuse("config.json: no_rope_layers is not each fourth layer, as in llama.cpp");
  }
}

// Architectures whose layers all have full attention in llama.cpp. A sliding_window alone, as Mistral has it, is left
// out without a refusal: its models are used in the context of one window.
void check_full_attention(const ModelSettings& model) {
  Settings& settings = model.settings;
  const std::vector<bool> is_full = layers_of_type(settings, model.layers, "full_attention");
  if (std::ranges::find(is_full, false) != is_full.end())
    return settings.refuse("config.json: layer_types has other layers than full_attention, llama.cpp has none");
  if (!is_full.empty() || settings.fields().flag("use_sliding_window") != true) return;
  const Integer window = settings.integer({"sliding_window"});
  const uint32_t without = settings.integer({"max_window_layers"}).value_or(0);
  const uint32_t context = settings.integer({"max_position_embeddings"}).value_or(UINT32_MAX);
  if (window && *window < context && without < model.layers)
    settings.refuse("config.json: use_sliding_window is true, llama.cpp has no window in this architecture");
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

void handle_order_of_layers(const ModelSettings& model) {
  switch (model.arch()) {
    case Arch::gemma2:
    case Arch::gpt_oss:
      return add_order_of_layers(model, 2);
    case Arch::gemma3:
      return add_order_of_layers(model, 6);
    case Arch::smollm3:
      check_full_attention(model);
      return check_layers_without_rope(model);
    case Arch::llama:
    case Arch::granite:
    case Arch::mistral3:
    case Arch::qwen2:
    case Arch::qwen2moe:
    case Arch::qwen3:
    case Arch::qwen3moe:
    case Arch::phi3:
    case Arch::glm4:
    case Arch::deepseek2:
      return check_full_attention(model);
    default:
      return;
  }
}

}  // namespace weightfs::mapping
