#include "formats/summary/facts/layer_types.h"

#include <algorithm>
#include <array>

#include "formats/summary/facts/unknown_attention.h"

namespace weightfs::summary {
namespace {

using Layers = std::vector<Layer>;

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

// Families that have no window unless they state that they use it.
constexpr auto kNoneSlides =
    std::to_array<std::string_view>({"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text",
                                     "qwen2_audio", "qwen3", "qwen3_moe", "qwen3_vl", "qwen3_vl_text"});

struct NamedLayer {
  std::string_view name;
  Layer layer;
};

constexpr std::array kNames = {
    NamedLayer{"attention", Layer::full},
    NamedLayer{"chunked_attention", Layer::sliding},
    NamedLayer{"conv", Layer::recurrent},
    NamedLayer{"full_attention", Layer::full},
    NamedLayer{"global", Layer::full},
    NamedLayer{"global_attention", Layer::full},
    NamedLayer{"hybrid", Layer::both},
    NamedLayer{"linear_attention", Layer::recurrent},
    NamedLayer{"local", Layer::sliding},
    NamedLayer{"local_attention", Layer::sliding},
    NamedLayer{"mamba", Layer::recurrent},
    NamedLayer{"mamba2", Layer::recurrent},
    NamedLayer{"mlp", Layer::none},
    NamedLayer{"moe", Layer::none},
    NamedLayer{"recurrent", Layer::recurrent},
    NamedLayer{"sliding_attention", Layer::sliding},
};

constexpr auto kTypeFields = std::to_array<std::string_view>(
    {"layer_types", "layers_block_type", "block_types", "_block_types", "attention_layers"});

std::optional<Layer> layer_named(const Value& value) {
  const auto* const name = std::get_if<std::string>(&value);
  const auto known = name == nullptr ? kNames.end() : std::ranges::find(kNames, *name, &NamedLayer::name);
  return known == kNames.end() ? std::nullopt : std::optional(known->layer);
}

// Nemotron-H: a letter for each layer.
std::optional<Layer> layer_of_letter(char letter) {
  if (letter == '*') return Layer::full;
  if (letter == 'M') return Layer::recurrent;
  return letter == '-' || letter == 'E' ? std::optional(Layer::none) : std::nullopt;
}

// A list or a text with the type of each layer; `is_known` becomes false if it has a type that is not known.
Layers named_types(const Fields& text, uint64_t layers, bool& is_known) {
  for (const std::string_view name : kTypeFields) {
    const List* const list = text.list(name);
    if (list == nullptr || list->empty()) continue;
    const bool is_repeated = name == "block_types" || name == "_block_types";
    is_known &= is_repeated || list->size() >= layers;
    Layers out;
    for (uint64_t i = 0; i < layers; ++i) {
      const auto layer = layer_named((*list)[i % list->size()]);
      is_known &= layer.has_value();
      out.push_back(layer.value_or(Layer::none));
    }
    return out;
  }
  const std::string letters = text.text({"hybrid_override_pattern"});
  Layers out;
  for (uint64_t i = 0; i < layers && !letters.empty(); ++i) {
    const auto layer = i < letters.size() ? layer_of_letter(letters[i]) : std::nullopt;
    is_known &= layer.has_value();
    out.push_back(layer.value_or(Layer::none));
  }
  return out;
}

// A list of numbers, 1 for the layers of one type and 0 for those of another: of MiMo, of MiniMax.
Layers numbered_types(const Fields& text, uint64_t layers, bool& is_known) {
  struct Numbered {
    std::string_view name;
    Layer zero, one;
  };
  for (const auto& [name, zero, one] : {Numbered{"hybrid_layer_pattern", Layer::full, Layer::sliding},
                                        Numbered{"attn_type_list", Layer::recurrent, Layer::full}}) {
    const List* const list = text.list(name);
    if (list == nullptr || list->empty()) continue;
    const auto numbers = text.per_layer(name, layers);
    is_known &= list->size() >= layers && !numbers.empty();
    Layers out;
    for (const uint64_t number : numbers) {
      is_known &= number <= 1;
      out.push_back(number == 0 ? zero : one);
    }
    return out;
  }
  return {};
}

// Layers with attention at these places, which count from `first`; the others are recurrent.
Layers types_at(const List& places, uint64_t layers, uint64_t first) {
  Layers out(layers, Layer::recurrent);
  for (const Value& place : places)
    if (const Number i = number_of(place); i && *i >= first && *i - first < layers) out[*i - first] = Layer::full;
  return out;
}

// Hybrids that state which layers have attention by a number or by places.
Layers hybrid_types(const Fields& text, uint64_t layers) {
  const Number period = text.number({"attn_layer_period"});
  const Number interval = text.number({"full_attention_interval"});
  Layers out(layers, Layer::recurrent);
  if (period.value_or(0) > 0) {
    const uint64_t offset = text.number({"attn_layer_offset"}).value_or(0);
    for (uint64_t i = 0; i < layers; ++i)
      if (i % *period == offset) out[i] = Layer::full;
    return out;
  }
  if (interval.value_or(0) > 0) {
    for (uint64_t i = 0; i < layers; ++i)
      if (i % *interval == *interval - 1) out[i] = Layer::full;
    return out;
  }
  if (const List* const kimi = text.object({"linear_attn_config"}).list("full_attn_layers"))
    return types_at(*kimi, layers, 1);
  for (const char* const name : {"attn_layer_indices", "full_attn_idxs"})
    if (const List* const places = text.list(name)) return types_at(*places, layers, 0);
  return {};
}

// EXAONE: "LLLG", a letter for each layer of a period.
Layers lettered_windows(std::string_view letters, uint64_t layers, bool& is_known) {
  Layers out;
  for (uint64_t i = 0; i < layers; ++i) {
    const char letter = letters[i % letters.size()];
    is_known &= letter == 'L' || letter == 'G';
    out.push_back(letter == 'L' ? Layer::sliding : Layer::full);
  }
  return out;
}

std::string_view family_of(const Config& config) {
  const auto* const own = config.text.find("model_type");
  const auto* const text = own == nullptr ? nullptr : std::get_if<std::string>(own);
  return text == nullptr ? std::string_view(config.model_type) : std::string_view(*text);
}

// The number of layers after which windows repeat; `is_known` becomes false if it is stated in an unknown way.
Number period_of(const Config& config, bool& is_known) {
  Number period;
  for (const std::string_view name : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    const Value* const value = config.text.find(name);
    if (value == nullptr || period) continue;
    period = number_of(*value);
    is_known &= period.has_value();
  }
  const auto family = std::ranges::find(kPeriods, family_of(config), &Family::model_type);
  return period || family == kPeriods.end() ? period : Number(family->period);
}

// Llama 4: the layers without positions have no window.
Layers chunked_types(const Fields& text, uint64_t layers) {
  const List* const positions = text.list("no_rope_layers");
  if (positions == nullptr || positions->size() < layers) return {};
  Layers out;
  for (const uint64_t has_positions : text.per_layer("no_rope_layers", layers))
    out.push_back(has_positions != 0 ? Layer::sliding : Layer::full);
  return out;
}

// Models with a window: which layers have it.
Layers windowed_types(const Config& config, const Summary& known, uint64_t layers, bool& is_known) {
  const Fields& text = config.text;
  Layers out(layers, Layer::full);
  if (!known.sliding_window && !text.has("attention_chunk_size")) return out;
  const Value* const pattern = text.find("sliding_window_pattern");
  const auto* const letters = pattern == nullptr ? nullptr : std::get_if<std::string>(pattern);
  if (letters != nullptr && !letters->empty()) return lettered_windows(*letters, layers, is_known);
  if (!known.sliding_window)
    if (auto chunked = chunked_types(text, layers); !chunked.empty()) return chunked;
  const Number period = period_of(config, is_known);
  const Number first = text.flag("use_sliding_window").value_or(false) ? text.number({"max_window_layers"}) : Number();
  const bool all_slide = std::ranges::find(kAllSlide, family_of(config)) != kAllSlide.end();
  for (uint64_t i = 0; i < layers; ++i) {
    const bool slides = period.value_or(0) > 0 ? i % *period != *period - 1 : first ? i >= *first : all_slide;
    if (slides) out[i] = Layer::sliding;
  }
  return out;
}

Layers types_of(const Config& config, const Summary& known, uint64_t layers, bool& is_known) {
  const Fields& text = config.text;
  if (auto named = named_types(text, layers, is_known); !named.empty()) return named;
  if (auto numbered = numbered_types(text, layers, is_known); !numbered.empty()) return numbered;
  if (auto hybrid = hybrid_types(text, layers); !hybrid.empty()) return hybrid;
  if (known.attention == "none") return Layers(layers, Layer::recurrent);
  if (config.model_type == "falcon_h1") return Layers(layers, Layer::both);
  return windowed_types(config, known, layers, is_known);
}

}  // namespace

std::optional<Layers> layers_by_config(const Config& config, const Summary& known, uint64_t layers) {
  const Fields& text = config.text;
  bool is_known = true;
  Layers out = types_of(config, known, layers, is_known);
  const auto keeps_state = [](Layer layer) { return layer == Layer::recurrent || layer == Layer::both; };
  if (!is_known || out.size() != layers) return std::nullopt;
  if (states_unknown_attention(text, std::ranges::any_of(out, keeps_state))) return std::nullopt;
  // RecurrentGemma: the attention of all such layers has the window.
  if (text.has("lru_width")) std::ranges::replace(out, Layer::full, Layer::sliding);
  // These layers attend to an image, whose keys and values do not grow with the text.
  if (const List* const cross = text.list("cross_attention_layers"))
    for (const Value& place : *cross)
      if (const Number i = number_of(place); i && *i < layers) out[*i] = Layer::none;
  return out;
}

bool has_unknown_windows(const Config& config, const std::vector<Layer>& types) {
  const Fields& text = config.text;
  if (std::ranges::find(types, Layer::full) == types.end() || std::ranges::find(types, Layer::sliding) != types.end())
    return false;
  const bool has_types = std::ranges::any_of(kTypeFields, [&](auto name) { return text.list(name) != nullptr; });
  return !has_types && std::ranges::find(kNoneSlides, family_of(config)) == kNoneSlides.end();
}

}  // namespace weightfs::summary
