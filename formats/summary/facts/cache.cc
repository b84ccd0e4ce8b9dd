#include "formats/summary/facts/cache.h"

#include <algorithm>

namespace weightfs::summary {

Number bytes_per_token(Number kv_heads, Number key_dim, Number value_dim) {
  return product(2, product(kv_heads, sum(key_dim, value_dim)));
}

std::optional<KvCache> cache_of(const std::vector<LayerCache>& layers, Number context, Number state, bool has_state) {
  if (layers.empty()) return std::nullopt;
  Number per_token = 0;
  Number at_context = has_state ? state : Number(0);
  Number window;
  for (const LayerCache& layer : layers) {
    if (layer.window) window = std::max(window.value_or(0), *layer.window);
    per_token = sum(per_token, layer.bytes);
    const Number tokens = layer.window && context ? Number(std::min(*layer.window, *context)) : context;
    at_context = sum(at_context, product(layer.bytes, tokens));
  }
  if (!per_token) return std::nullopt;
  return KvCache{*per_token, at_context, state, window};
}

}  // namespace weightfs::summary
