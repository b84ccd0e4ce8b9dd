// Which layers of a model have attention, with which window, by its config.json.
#include <algorithm>
#include <array>

#include "formats/summary/facts/cache.h"
#include "formats/summary/facts/config.h"

namespace weightfs::summary {
namespace {

enum class Layer : uint8_t { full, sliding, recurrent, none };

struct Family {
  std::string_view model_type;
  uint64_t period;  ///< every so many layers, the last one has no window
};

// Families whose pattern of windows is a default of their class.
constexpr std::array kPeriods = {Family{"gemma2", 2},  Family{"gemma3", 6},       Family{"gemma3_text", 6},
                                 Family{"gemma3n", 5}, Family{"gemma3n_text", 5}, Family{"cohere2", 4},
                                 Family{"gpt_oss", 2}, Family{"llama4", 4},       Family{"llama4_text", 4}};

// Families whose layers all have the window that is stated.
constexpr std::array<std::string_view, 5> kAllSlide = {"mistral", "mixtral", "phi3", "phimoe", "starcoder2"};

Layer layer_named(std::string_view type) {
  static constexpr std::array<std::string_view, 3> kSliding = {"sliding_attention", "chunked_attention",
                                                               "local_attention"};
  static constexpr std::array<std::string_view, 4> kFull = {"full_attention", "attention", "global_attention",
                                                            "hybrid"};
  if (std::ranges::find(kSliding, type) != kSliding.end()) return Layer::sliding;
  if (std::ranges::find(kFull, type) != kFull.end()) return Layer::full;
  return Layer::recurrent;
}

// Nemotron-H: a letter for each layer.
Layer layer_of_letter(char letter) {
  if (letter == '*') return Layer::full;
  return letter == 'M' ? Layer::recurrent : Layer::none;
}

std::vector<Layer> stated_types(const Fields& text, uint64_t layers) {
  for (const std::string_view name : {"layer_types", "layers_block_type", "block_types", "_block_types"}) {
    const List* const list = text.list(name);
    if (list == nullptr || list->empty()) continue;
    std::vector<Layer> out;
    for (uint64_t i = 0; i < layers; ++i) {
      const auto* const type = std::get_if<std::string>(&(*list)[i % list->size()]);
      out.push_back(type == nullptr ? Layer::none : layer_named(*type));
    }
    return out;
  }
  const std::string letters = text.text({"hybrid_override_pattern"});
  std::vector<Layer> out;
  for (uint64_t i = 0; i < layers && !letters.empty(); ++i)
    out.push_back(i < letters.size() ? layer_of_letter(letters[i]) : Layer::none);
  return out;
}

// Hybrids that state which layers have attention by a number or by places.
std::vector<Layer> hybrid_types(const Fields& text, uint64_t layers) {
  std::vector<Layer> out(layers, Layer::recurrent);
  const Number period = text.number({"attn_layer_period"});
  const Number interval = text.number({"full_attention_interval"});
  const List* const places = text.list("attn_layer_indices");
  const List* const lfm = text.list("full_attn_idxs");
  if (period.value_or(0) > 0) {
    const uint64_t offset = text.number({"attn_layer_offset"}).value_or(0);
    for (uint64_t i = 0; i < layers; ++i)
      if (i % *period == offset) out[i] = Layer::full;
  } else if (interval.value_or(0) > 0) {
    for (uint64_t i = 0; i < layers; ++i)
      if (i % *interval == *interval - 1) out[i] = Layer::full;
  } else if (places != nullptr || lfm != nullptr) {
    for (const Value& place : places != nullptr ? *places : *lfm)
      if (const Number i = number_of(place); i && *i < layers) out[*i] = Layer::full;
  } else {
    return {};
  }
  return out;
}

// Models with a window: which layers have it.
std::vector<Layer> windowed_types(const Config& config, const Summary& known, uint64_t layers) {
  const Fields& text = config.text;
  std::vector<Layer> out(layers, Layer::full);
  if (!known.sliding_window && !text.has("attention_chunk_size")) return out;
  const std::string own = text.text({"model_type"});
  const std::string_view type = own.empty() ? std::string_view(config.model_type) : own;
  const auto family = std::ranges::find(kPeriods, type, &Family::model_type);
  Number period = text.number({"sliding_window_pattern", "_sliding_window_pattern"});
  if (!period && family != kPeriods.end()) period = family->period;
  const Number first = text.flag("use_sliding_window").value_or(false) ? text.number({"max_window_layers"}) : Number();
  const bool all_slide = std::ranges::find(kAllSlide, type) != kAllSlide.end();
  for (uint64_t i = 0; i < layers; ++i) {
    const bool slides = period && *period > 0 ? i % *period != *period - 1 : first ? i >= *first : all_slide;
    if (slides) out[i] = Layer::sliding;
  }
  return out;
}

// What attention keeps for a token in each layer: nothing where the file does not state enough.
std::vector<Number> bytes_by_layer(const Fields& text, const Summary& known, uint64_t layers) {
  if (const Number rank = text.number({"kv_lora_rank"})) {
    Number width = sum(rank, text.number({"qk_rope_head_dim"}).value_or(0));
    width = sum(width, text.number({"index_head_dim"}).value_or(0));
    return std::vector<Number>(layers, product(2, width));
  }
  std::vector<uint64_t> heads = text.per_layer("num_key_value_heads", layers);
  if (heads.empty() || text.list("num_key_value_heads") == nullptr) heads = text.per_layer("num_kv_heads", layers);
  if (text.list("num_key_value_heads") == nullptr && text.list("num_kv_heads") == nullptr) heads.clear();
  std::vector<Number> out;
  for (uint64_t i = 0; i < layers; ++i) {
    const Number own = heads.empty() ? known.kv_heads : Number(heads[i]);
    out.push_back(bytes_per_token(own, known.head_dim, known.head_dim));
  }
  return out;
}

// The state of recurrent layers, in float32: of Mamba, or of gated delta rules.
Number state_of(const Fields& text, const Summary& known, uint64_t layers) {
  if (layers == 0) return std::nullopt;
  const Number value_heads = text.number({"linear_num_value_heads"});
  if (value_heads) {
    const Number key = text.number({"linear_key_head_dim"});
    const Number value = text.number({"linear_value_head_dim"});
    const Number keys = product(text.number({"linear_num_key_heads"}), key);
    const Number conv = product(sum(product(2, keys), product(value_heads, value)),
                                std::max<uint64_t>(text.number({"linear_conv_kernel_dim"}).value_or(4), 1) - 1);
    return product(4, product(layers, sum(product(product(value_heads, key), value), conv)));
  }
  const Number state = text.number({"state_size", "ssm_state_size", "mamba_d_state"});
  const Number kernel = text.number({"conv_kernel", "mamba_d_conv", "conv_kernel_size"});
  Number inner = text.number({"mamba_d_ssm", "mamba_intermediate_size"});
  if (!inner && text.text({"model_type"}).find("mamba") != std::string::npos)
    inner = text.number({"intermediate_size"});
  if (!inner) inner = product(known.hidden_size, text.number({"expand", "mamba_expand"}));
  if (!inner)
    inner = product(text.number({"mamba_num_heads", "mamba_n_heads"}), text.number({"mamba_head_dim", "mamba_d_head"}));
  if (!state || !kernel || *kernel == 0) return std::nullopt;
  // Mamba 2 convolves the groups' states with the inner width.
  const Number groups = text.number({"n_groups", "mamba_n_groups"});
  const Number convolved = groups ? sum(inner, product(2, product(groups, state))) : inner;
  return product(4, product(layers, sum(product(inner, state), product(convolved, kernel.value_or(1) - 1))));
}

std::vector<Layer> types_of(const Config& config, const Summary& known, uint64_t layers) {
  if (auto stated = stated_types(config.text, layers); !stated.empty()) return stated;
  if (auto hybrid = hybrid_types(config.text, layers); !hybrid.empty()) return hybrid;
  if (known.attention == "none") return std::vector<Layer>(layers, Layer::recurrent);
  return windowed_types(config, known, layers);
}

}  // namespace

std::optional<KvCache> cache_by_config(const Config& config, const Summary& known) {
  const uint64_t layers = known.layers.value_or(0);
  if (layers == 0 || layers > kMaxLayers) return std::nullopt;
  const Fields& text = config.text;
  const std::vector<Layer> types = types_of(config, known, layers);
  const std::vector<Number> bytes = bytes_by_layer(text, known, layers);
  const uint64_t shared = text.number({"num_kv_shared_layers"}).value_or(0);
  const Number chunk = text.number({"attention_chunk_size"});
  std::vector<LayerCache> caches;
  uint64_t recurrent = 0;
  for (uint64_t i = 0; i < layers; ++i) {
    const bool has_own = (types[i] == Layer::full || types[i] == Layer::sliding) && i + shared < layers;
    recurrent += types[i] == Layer::recurrent ? 1u : 0u;
    const Number window = types[i] == Layer::sliding ? (known.sliding_window ? known.sliding_window : chunk) : Number();
    caches.push_back({has_own ? bytes[i] : Number(0), window});
  }
  return cache_of(caches, known.context_length, state_of(text, known, recurrent));
}

}  // namespace weightfs::summary
