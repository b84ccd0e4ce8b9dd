// What the layers of a GGUF keep for a sequence, by its keys, as llama.cpp allocates it.
#pragma once

#include <optional>

#include "formats/model.h"
#include "formats/summary/facts/cache.h"
#include "formats/summary/fields.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

/// The keys and values per token. `own`: the keys of the architecture. Nothing if they do not state enough, and for
/// caches of a kind that is not known.
std::optional<ModelCache> cache_by_keys(const Fields& own, const TensorList& tensors, const Summary& known);

}  // namespace weightfs::summary
