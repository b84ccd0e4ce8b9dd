// What of a model takes memory: the bytes of its blocks, what their layers keep, and the widths of what is computed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "formats/model.h"
#include "formats/summary/facts/cache.h"
#include "formats/summary/fields.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

inline constexpr uint64_t kMostBytes = uint64_t{1} << 56;  ///< of one sum: more are refused

/// A repeated block, or the output.
struct MemoryBlock {
  uint64_t weights = 0;
  uint64_t largest = 0;  ///< of its tensors
  uint64_t experts = 0;  ///< bytes of experts that are tensors of their own
  LayerCache cache;
};

struct MemoryParts {
  std::vector<MemoryBlock> blocks;  ///< the last one is the output
  uint64_t input = 0;               ///< weights that stay on the host
  uint64_t copied = 0;              ///< of them, those that the output uses, too
  uint64_t state = 0;               ///< bytes that a recurrent layer keeps
  Number context;                   ///< of the model

  // Elements of the buffers for a token.
  uint64_t hidden = 0;
  uint64_t vocabulary = 0;
  uint64_t inside = 0;  ///< of the layer that takes most
};

/// Fails with unsupported, and the reason, if one of them is not known.
Result<MemoryParts> memory_parts(const Model& model, const Summary& known, std::span<const Counted> counted);

}  // namespace weightfs::summary
