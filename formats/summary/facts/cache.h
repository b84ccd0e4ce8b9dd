// The size of the keys and values that attention keeps, layer by layer.
#pragma once

#include <optional>
#include <vector>

#include "formats/summary/fields.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

/// What a layer keeps for one sequence.
struct LayerCache {
  Number bytes;   ///< for each token; 0 for a layer without attention of its own
  Number window;  ///< of so many tokens at most
};

/// Bytes of keys and values for a token in one layer, in float16.
Number bytes_per_token(Number kv_heads, Number key_dim, Number value_dim);

/// Adds the layers up. `state`: of recurrent layers, in bytes; without it the total is not known if `has_state`.
/// Nothing on overflow, and if there are no layers.
std::optional<KvCache> cache_of(const std::vector<LayerCache>& layers, Number context, Number state, bool has_state);

}  // namespace weightfs::summary
