#include "formats/summary/facts/cache.h"

#include <algorithm>
#include <utility>

namespace weightfs::summary {

std::optional<LayerCache> attention_of(Number heads, Number key, Number value) {
  if (!product(2, product(heads, sum(key, value)))) return std::nullopt;
  return LayerCache{*heads, *key, *value};
}

uint64_t bytes_per_token(const LayerCache& layer) {
  return product(2, product(layer.heads, sum(layer.key, layer.value))).value_or(0);
}

std::optional<ModelCache> cache_of(std::vector<LayerCache> layers, Number context, Number state) {
  if (layers.empty()) return std::nullopt;
  const bool has_state = std::ranges::any_of(layers, &LayerCache::has_state);
  Number per_token = 0;
  Number at_context = has_state ? state : Number(0);
  Number window;
  for (const LayerCache& layer : layers) {
    if (layer.window) window = std::max(window.value_or(0), *layer.window);
    const uint64_t bytes = bytes_per_token(layer);
    per_token = sum(per_token, bytes);
    const Number tokens = layer.window && context ? Number(std::min(*layer.window, *context)) : context;
    at_context = sum(at_context, product(bytes, tokens));
  }
  if (!per_token) return std::nullopt;
  return ModelCache{{*per_token, at_context, state, window}, std::move(layers)};
}

}  // namespace weightfs::summary
