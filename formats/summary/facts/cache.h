// The size of the keys and values that attention keeps, layer by layer.
#pragma once

#include <optional>
#include <vector>

#include "formats/summary/fields.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

/// What a layer keeps for one sequence: `heads` keys and values of these sizes for each token. A layer without
/// attention of its own has no heads.
struct LayerCache {
  uint64_t heads = 0;
  uint64_t key = 0, value = 0;  ///< elements; a compressed cache has keys only
  Number window = {};           ///< of so many tokens at most
  bool has_state = false;       ///< a recurrent layer
};

/// What all layers keep, and each of them; none if it is not known which have a window.
struct ModelCache {
  KvCache total;
  std::vector<LayerCache> layers;
};

/// Attention with these heads; nothing if one of the numbers is not known, or the size does not fit.
std::optional<LayerCache> attention_of(Number heads, Number key, Number value);

/// Bytes of keys and values for a token in one layer, in float16.
uint64_t bytes_per_token(const LayerCache& layer);

/// Adds the layers up. `state`: of all recurrent layers, in bytes; without it the total is not known if there are some.
/// Nothing on overflow, and if there are no layers.
std::optional<ModelCache> cache_of(std::vector<LayerCache> layers, Number context, Number state);

}  // namespace weightfs::summary
