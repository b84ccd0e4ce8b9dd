#include "formats/summary/memory.h"

#include <algorithm>

#include "formats/summary/memory/buffers.h"
#include "formats/summary/memory/keys_and_values.h"
#include "formats/summary/memory/parts.h"

namespace weightfs::summary {
namespace {

constexpr uint64_t kStep = 256;  // tokens: llama.cpp pads the context to them

// The largest number from 0 to `most` for which `fits`, which holds for all numbers below one for which it does;
// nothing if it does not for 0.
template <class Fits>
Number largest_of(uint64_t most, const Fits& fits) {
  if (!fits(uint64_t{0})) return std::nullopt;
  uint64_t good = 0, bad = most + 1;
  while (bad - good > 1) {
    const uint64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace

Result<MemoryModel> MemoryModel::of(const Model& model, const Summary& summary, std::span<const Counted> counted) {
  return MemoryModel(std::make_shared<const MemoryParts>(TRY(memory_parts(model, summary, counted))));
}

uint64_t MemoryModel::layers() const { return parts_->blocks.size(); }

Number MemoryModel::context() const { return parts_->context; }

Result<MemoryUse> MemoryModel::use(const MemoryChoice& choice, uint64_t gpu_layers) const {
  const auto& blocks = parts_->blocks;
  const size_t first = blocks.size() - std::min<size_t>(gpu_layers, blocks.size());
  MemoryUse out;
  out.host.weights = parts_->input;
  uint64_t moved = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const MemoryBlock& block = blocks[i];
    MemoryPart& part = i < first ? out.host : out.gpu;
    part.weights += block.weights;
    part.cache += TRY(kept_bytes(block.cache, choice)) + (block.cache.has_state ? parts_->state : 0);
    if (part.cache >= kMostBytes)
      return failure(Code::unsupported, "the keys and values have more bytes than any memory");
    if (i < first) moved = std::max(moved, block.largest);
  }
  if (gpu_layers > 0) out.gpu.weights += parts_->copied;
  const Place place = gpu_layers == 0 ? Place::host : first > 0 ? Place::both : Place::gpu;
  const Buffers buffers = TRY(buffers_of(*parts_, choice, place, moved));
  out.gpu.compute = buffers.gpu;
  out.host.compute = buffers.host;
  return out;
}

Result<MemoryFit> MemoryModel::fit(const MemoryChoice& choice, uint64_t bytes) const {
  TRY(use(choice, 0));  // the errors are those of every number of layers
  const auto fits = [&](const MemoryChoice& some, uint64_t layers) {
    const auto needed = use(some, layers);
    return needed && needed->gpu.total() <= bytes;
  };
  MemoryFit out;
  // Without the last block nothing is moved to the GPU, so that all layers may fit where all but one do not.
  out.layers = fits(choice, layers())
                   ? layers()
                   : *largest_of(layers() - 1, [&](uint64_t count) { return count == 0 || fits(choice, count); });
  if (!context()) return out;
  const uint64_t most = std::min(*context(), kMostTokens);
  MemoryChoice other = choice;
  const auto steps = largest_of((most + kStep - 1) / kStep, [&](uint64_t count) {
    other.context = std::min(std::max(count, uint64_t{1}) * kStep, most);
    return fits(other, layers());
  });
  if (steps) out.largest_context = std::min(std::max(*steps, uint64_t{1}) * kStep, most);
  return out;
}

}  // namespace weightfs::summary
