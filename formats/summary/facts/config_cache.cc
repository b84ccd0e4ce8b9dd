// What the layers of a model keep for a token, by its config.json.
#include <algorithm>
#include <array>
#include <utility>

#include "formats/summary/facts/cache.h"
#include "formats/summary/facts/config.h"
#include "formats/summary/facts/layer_types.h"

namespace weightfs::summary {
namespace {

// Families with more attention in a layer than one.
constexpr auto kSeveralInALayer = std::to_array<std::string_view>({"longcat_flash", "longcat_flash_ngram"});

bool has_attention(Layer type) { return type == Layer::full || type == Layer::sliding || type == Layer::both; }
bool has_state(Layer type) { return type == Layer::recurrent || type == Layer::both; }

// The heads of keys and values in a layer, and their sizes.
struct Heads {
  Number count, key, value;
};

// The heads of layers without a window, and of those with one, which several families state apart.
class HeadsByLayer {
 public:
  HeadsByLayer(const Fields& text, const Summary& known, uint64_t layers) {
    for (const std::string_view name : {"num_key_value_heads", "num_kv_heads", "num_key_value_heads_per_layer"})
      if (counts_.empty() && text.list(name) != nullptr) counts_ = text.per_layer(name, layers);
    const Number value = text.number({"v_head_dim"});
    full_ = {known.kv_heads, known.head_dim, value ? value : known.head_dim};
    sliding_ = full_;
    // MiMo
    if (const Number count = text.number({"swa_num_key_value_heads"})) sliding_.count = count;
    if (const Number size = text.number({"swa_head_dim"})) sliding_.key = size, sliding_.value = size;
    if (const Number size = text.number({"swa_v_head_dim"})) sliding_.value = size;
    // Step-3.5
    const Fields other = text.object({"attention_other_setting"});
    if (other.text({"attention_type"}) != "sliding_attention") return;
    if (const Number count = other.number({"num_attention_groups", "num_key_value_heads"})) sliding_.count = count;
    if (const Number size = other.number({"head_dim"})) sliding_.key = size, sliding_.value = size;
  }

  Heads of(uint64_t layer, Layer type) const {
    Heads out = type == Layer::sliding ? sliding_ : full_;
    if (layer < counts_.size()) out.count = counts_[layer];
    return out;
  }

 private:
  std::vector<uint64_t> counts_;
  Heads full_, sliding_;
};

// The elements of a compressed cache, which is the same in all layers; nothing if keys and values are kept.
Number compressed_width(const Fields& text) {
  if (!has_compressed_cache(text)) return std::nullopt;
  const Number width = sum(text.number({"kv_lora_rank"}), text.number({"qk_rope_head_dim"}).value_or(0));
  return sum(width, text.number({"index_head_dim"}).value_or(0));
}

// The state of gated delta rules: Qwen3-Next, and Kimi, whose keys have as many heads as its values.
Number delta_state_of(const Fields& text, uint64_t layers) {
  const Fields kimi = text.object({"linear_attn_config"});
  const Number value_heads = kimi ? kimi.number({"num_heads"}) : text.number({"linear_num_value_heads"});
  const Number key_heads = kimi ? value_heads : text.number({"linear_num_key_heads"});
  const Number key = kimi ? kimi.number({"head_dim"}) : text.number({"linear_key_head_dim"});
  const Number value = kimi ? key : text.number({"linear_value_head_dim"});
  const Number kernel =
      kimi ? kimi.number({"short_conv_kernel_size"}) : text.number({"linear_conv_kernel_dim"}).value_or(4);
  if (!kernel) return std::nullopt;
  const Number conv = product(sum(product(2, product(key_heads, key)), product(value_heads, value)),
                              std::max<uint64_t>(*kernel, 1) - 1);
  return product(4, product(layers, sum(product(product(value_heads, key), value), conv)));
}

// The state of recurrent layers, in float32: of gated delta rules, of short convolutions, or of Mamba.
Number state_of(const Fields& text, const Summary& known, uint64_t layers) {
  if (layers == 0) return std::nullopt;
  if (text.has("linear_num_value_heads") || text.object({"linear_attn_config"})) return delta_state_of(text, layers);
  if (const Number kernel = text.number({"conv_L_cache"}); kernel.value_or(0) > 0)  // LFM2
    return product(4, product(layers, product(known.hidden_size, *kernel - 1)));
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

// Whether the matrix of a layer's keys has as many rows as these heads.
bool fits(const Heads& heads, const KeyRows& rows, uint64_t layer) {
  const auto stored = rows.find(layer);
  const Number expected = product(heads.count, heads.key);
  return stored == rows.end() || !expected || stored->second == *expected;
}

// Layers that use the keys and values of another one: the last ones of Gemma 3n, all but every n-th of Hunyuan.
class SharedLayers {
 public:
  SharedLayers(const Fields& text, uint64_t layers)
      : layers_(layers), shared_(text.number({"num_kv_shared_layers"}).value_or(0)) {
    if (text.flag("use_cla").value_or(false))
      period_ = std::max<uint64_t>(text.number({"cla_share_factor"}).value_or(1), 1);
  }

  bool has_own(uint64_t layer) const { return layer + shared_ < layers_ && layer % period_ == 0; }

 private:
  uint64_t layers_, shared_, period_ = 1;
};

void leave_out_unknown_windows(const Config& config, const Summary& known, const std::vector<Layer>& types,
                               std::optional<ModelCache>& cache) {
  const bool has_window = known.sliding_window && known.sliding_window < known.context_length;
  if (!cache || !has_window || !has_unknown_windows(config, types)) return;
  cache->total.bytes_at_context = std::nullopt;
  cache->layers.clear();
}

}  // namespace

std::optional<ModelCache> cache_by_config(const Config& config, const Summary& known, const KeyRows& rows) {
  const uint64_t layers = known.layers.value_or(0);
  if (layers == 0 || layers > kMaxLayers) return std::nullopt;
  if (std::ranges::find(kSeveralInALayer, config.model_type) != kSeveralInALayer.end()) return std::nullopt;
  const Fields& text = config.text;
  const auto types = layers_by_config(config, known, layers);
  if (!types) return std::nullopt;
  const HeadsByLayer all_heads(text, known, layers);
  const Number compressed = compressed_width(text);
  const SharedLayers shared(text, layers);
  const Number window = known.sliding_window ? known.sliding_window : text.number({"attention_chunk_size"});
  std::vector<LayerCache> caches;
  uint64_t recurrent = 0;
  for (uint64_t i = 0; i < layers; ++i) {
    const Layer type = (*types)[i];
    const bool attends = has_attention(type);
    Heads heads = all_heads.of(i, type);
    if (attends && !compressed && !fits(heads, rows, i)) return std::nullopt;
    if (type == Layer::sliding && !window) return std::nullopt;
    if (compressed) heads = {1, compressed, 0};
    auto layer = attends && shared.has_own(i) ? attention_of(heads.count, heads.key, heads.value) : LayerCache();
    if (!layer) return std::nullopt;
    if (type == Layer::sliding) layer->window = window;
    layer->has_state = has_state(type);
    recurrent += layer->has_state ? 1u : 0u;
    caches.push_back(*layer);
  }
  auto cache = cache_of(std::move(caches), known.context_length, state_of(text, known, recurrent));
  leave_out_unknown_windows(config, known, *types, cache);
  return cache;
}

}  // namespace weightfs::summary
