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
      return check_layers_without_rope(model);
    default:
      return;
  }
}

}  // namespace weightfs::mapping
