// The buffers in which llama.cpp computes a batch: an estimate of what its allocator takes, with flash attention. The
// largest tensors that exist at the same time, as observed (docs/summary.md).
#pragma once

#include "base/result.h"
#include "formats/summary/memory.h"
#include "formats/summary/memory/parts.h"

namespace weightfs::summary {

/// Where the blocks are, and the output, which is the last block.
enum class Place { host, gpu, both };

struct Buffers {
  uint64_t gpu = 0, host = 0;
};

/// The buffers. `moved`: the bytes of the largest tensor of a block that is on the host while others are on the GPU,
/// which computes a batch with it. Fails with unsupported if they are more than kMostBytes.
Result<Buffers> buffers_of(const MemoryParts& parts, const MemoryChoice& choice, Place place, uint64_t moved);

}  // namespace weightfs::summary
