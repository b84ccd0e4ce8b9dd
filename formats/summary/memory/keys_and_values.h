// The bytes of keys and values that a layer keeps, in a type of llama.cpp.
#pragma once

#include "base/result.h"
#include "formats/dtype.h"
#include "formats/summary/facts/cache.h"
#include "formats/summary/memory.h"

namespace weightfs::summary {

/// The type that llama.cpp calls `name`; null if it keeps no keys and values in it.
const DType* kv_type_named(std::string_view name);

/// The tokens that a layer has room for, with a window or without one: llama.cpp pads them.
uint64_t kept_tokens(const MemoryChoice& choice, Number window);

/// The bytes of a layer. Fails with unsupported if the blocks of the type do not divide a head, and if they are more
/// than kMostBytes.
Result<uint64_t> kept_bytes(const LayerCache& layer, const MemoryChoice& choice);

}  // namespace weightfs::summary
