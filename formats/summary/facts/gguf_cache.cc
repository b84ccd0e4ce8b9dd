#include "formats/summary/facts/gguf_cache.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "formats/summary/facts/cache.h"
#include "formats/summary/tensors/tensor_name.h"

namespace weightfs::summary {
namespace {

// Architectures of llama.cpp whose layers may have a window without a list of them. Phi-3 states one, which is not
// used.
struct WindowsOf {
  std::string_view architecture;
  uint64_t period;             ///< every so many layers, one has no window; 0: all have it
  bool is_first_full = false;  ///< it is the first of them, not the last
};
constexpr std::array kWindowsOf = {WindowsOf{"afmoe", 4},
                                   WindowsOf{"cohere2", 4},
                                   WindowsOf{"cohere2moe", 4, true},
                                   WindowsOf{"exaone-moe", 4},
                                   WindowsOf{"exaone4", 4},
                                   WindowsOf{"gemma2", 2},
                                   WindowsOf{"gemma3", 6},
                                   WindowsOf{"gemma3n", 5},
                                   WindowsOf{"gpt-oss", 2},
                                   WindowsOf{"laguna", 4, true},
                                   WindowsOf{"lfm2", 0},
                                   WindowsOf{"llama4", 4},
                                   WindowsOf{"mistral", 0},
                                   WindowsOf{"olmo2", 4},
                                   WindowsOf{"plamo3", 8},
                                   WindowsOf{"smallthinker", 4, true}};

// Which layers have a window: a list of bools, or a period.
std::vector<bool> sliding_layers(const Fields& own, std::string_view architecture, uint64_t layers) {
  std::vector<bool> out(layers);
  if (own.list("attention.sliding_window_pattern") != nullptr) {
    const auto stated = own.per_layer("attention.sliding_window_pattern", layers);
    for (uint64_t i = 0; i < stated.size(); ++i) out[i] = stated[i] != 0;
    return out;
  }
  Number period = own.number({"attention.sliding_window_pattern"});
  const auto family = std::ranges::find(kWindowsOf, architecture, &WindowsOf::architecture);
  if (!period && family != kWindowsOf.end()) period = family->period;
  const bool is_first_full = family != kWindowsOf.end() && family->is_first_full;
  for (uint64_t i = 0; i < layers && period; ++i)
    out[i] = *period == 0 || i % *period != (is_first_full ? 0 : *period - 1);
  return out;
}

// What the layers with a window see. llama.cpp gives the chunks of Llama 4 a fixed size, unless the file states a
// window of 0.
Number window_of(const Fields& own, const Summary& known) {
  constexpr uint64_t kChunk = 8192;
  if (known.architecture != "llama4") return known.sliding_window;
  if (const Number stated = own.positive({"attention.chunk_size"})) return stated;
  return own.number({"attention.sliding_window"}) == Number(0) ? std::nullopt : Number(kChunk);
}

// Elements that a recurrent layer keeps (llama.cpp's llama_hparams::n_embd_r and n_embd_s).
Number state_elements(const Fields& own, const Summary& known) {
  if (const Number head = own.positive({"wkv.head_size"}))  // RWKV
    return product(known.hidden_size, sum(own.number({"token_shift_count"}).value_or(2), head));
  if (const Number kernel = own.positive({"shortconv.l_cache"}))  // LFM2
    return product(known.hidden_size, *kernel - 1);
  const Number kernel = own.number({"ssm.conv_kernel"});
  if (const Number head = own.positive({"kda.head_dim"})) {  // Kimi
    const Number width = product(known.heads, head);
    const uint64_t kept = kernel.value_or(0) > 0 ? *kernel - 1 : 3;
    return sum(product(3 * kept, width), product(width, head));
  }
  const Number inner = own.number({"ssm.inner_size"});
  const Number state = own.number({"ssm.state_size"});
  if (!inner || !state || kernel.value_or(0) == 0) return std::nullopt;
  const Number groups = own.number({"ssm.group_count"});
  const Number convolved = groups ? sum(inner, product(2, product(groups, state))) : inner;
  return sum(product(inner, state), product(convolved, *kernel - 1));
}

enum class Kept : uint8_t { attention, state, both, nothing };

// The layers with attention are those with the matrix of its keys.
std::vector<Kept> by_tensors(const TensorList& tensors, const Summary& known, uint64_t layers) {
  std::vector<Kept> out(layers, Kept::state);
  const NameParser parser(known, true);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorName name = parser.parse(tensors.name(i));
    if ((name.is_keys || name.is_latent) && name.is_text() && name.layer < layers) out[name.layer] = Kept::attention;
  }
  return out;
}

// What each layer keeps although head_count_kv may be one number for all. `heads`: of keys and values.
std::vector<Kept> kept_by_layers(const Fields& own, const TensorList& tensors, const Summary& known,
                                 const std::vector<uint64_t>& heads) {
  const std::string_view architecture = known.architecture;
  const uint64_t layers = heads.size();
  std::vector<Kept> out(layers, Kept::attention);
  const Number interval = own.number({"full_attention_interval"});
  const auto recurrent = own.per_layer("attention.recurrent_layers", layers);
  if (architecture == "falcon-h1") {
    out.assign(layers, Kept::both);
  } else if (interval.value_or(0) > 0) {
    for (uint64_t i = 0; i < layers; ++i) out[i] = i % *interval == *interval - 1 ? Kept::attention : Kept::state;
  } else if (!recurrent.empty()) {
    for (uint64_t i = 0; i < layers; ++i) out[i] = recurrent[i] == 0 ? Kept::attention : Kept::state;
  } else if (own.has("ssm.inner_size")) {
    out = by_tensors(tensors, known, layers);
  }
  const bool has_others = architecture.starts_with("nemotron_h");  // layers that are a feed-forward part only
  const auto widths = has_others ? own.per_layer("feed_forward_length", layers) : std::vector<uint64_t>();
  for (uint64_t i = 0; i < layers; ++i) {
    if (heads[i] == 0 && out[i] == Kept::attention) out[i] = Kept::state;
    const bool is_other = architecture == "deci" || (i < widths.size() && widths[i] > 0);
    if (is_other && out[i] == Kept::state) out[i] = Kept::nothing;
  }
  return out;
}

// The keys that give the size of a layer's cache.
class CacheKeys {
 public:
  CacheKeys(const Fields& own, Number head_dim)
      : key_(own.has("attention.key_length") ? own.number({"attention.key_length"}) : head_dim),
        value_(own.has("attention.value_length") ? own.number({"attention.value_length"}) : head_dim),
        sliding_key_(own.number({"attention.key_length_swa"})),
        sliding_value_(own.number({"attention.value_length_swa"})) {
    const Number rank = sum(own.number({"attention.kv_lora_rank"}), own.number({"rope.dimension_count"}).value_or(0));
    if (own.has("attention.key_length_mla") && own.has("attention.value_length_mla")) rank_ = rank;
  }

  /// What a layer with so many heads keeps, with a sliding window or without one.
  std::optional<LayerCache> layer(uint64_t heads, bool has_window) const {
    if (rank_) return attention_of(1, rank_, 0);
    return attention_of(heads, has_window && sliding_key_ ? sliding_key_ : key_,
                        has_window && sliding_value_ ? sliding_value_ : value_);
  }

 private:
  Number key_, value_, sliding_key_, sliding_value_;
  Number rank_;  // of a compressed cache
};

// Models without attention.
std::optional<ModelCache> recurrent_cache(const Fields& own, const Summary& known) {
  const uint64_t layers = known.layers.value_or(0);
  if (layers > kMaxLayers) return std::nullopt;
  std::vector<LayerCache> caches(std::max<uint64_t>(layers, 1));
  for (LayerCache& cache : caches) cache.has_state = true;
  const Number state = layers == 0 ? std::nullopt : product(4, product(layers, state_elements(own, known)));
  return cache_of(std::move(caches), std::nullopt, state);
}

}  // namespace

std::optional<ModelCache> cache_by_keys(const Fields& own, const TensorList& tensors, const Summary& known) {
  if (known.attention == "none") return recurrent_cache(own, known);
  const uint64_t layers = known.layers.value_or(0);
  if (layers == 0 || layers > kMaxLayers) return std::nullopt;
  if (own.has("attention.indexer.key_length")) return std::nullopt;  // a second cache, of some of the layers
  const auto stated_heads = own.per_layer("attention.head_count_kv", layers);
  const auto heads = stated_heads.empty() ? own.per_layer("attention.head_count", layers) : stated_heads;
  if (heads.empty()) return std::nullopt;
  const CacheKeys keys(own, known.head_dim);
  const Number window = window_of(own, known);
  const auto slides = sliding_layers(own, known.architecture, layers);
  const auto kept = kept_by_layers(own, tensors, known, heads);
  const uint64_t shared = own.number({"attention.shared_kv_layers"}).value_or(0);
  std::vector<LayerCache> caches;
  uint64_t recurrent = 0;
  for (uint64_t i = 0; i < layers; ++i) {
    const bool has_window = window && slides[i];
    const bool attends = kept[i] == Kept::attention || kept[i] == Kept::both;
    auto layer = attends && heads[i] > 0 && i + shared < layers ? keys.layer(heads[i], has_window) : LayerCache();
    if (!layer) return std::nullopt;
    if (has_window) layer->window = window;
    layer->has_state = kept[i] == Kept::state || kept[i] == Kept::both;
    recurrent += layer->has_state ? 1u : 0u;
    caches.push_back(*layer);
  }
  const Number state = recurrent == 0 ? std::nullopt : product(4, product(recurrent, state_elements(own, known)));
  return cache_of(std::move(caches), known.context_length, state);
}

}  // namespace weightfs::summary
