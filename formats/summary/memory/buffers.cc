#include "formats/summary/memory/buffers.h"

#include <algorithm>

#include "formats/summary/memory/keys_and_values.h"

namespace weightfs::summary {
namespace {

constexpr uint64_t kFloat32 = 4;
constexpr uint64_t kFloat16 = 2;

// Which tokens a token sees, once for layers with a window and once for those without one.
Number mask_bytes(const MemoryParts& parts, const MemoryChoice& choice) {
  uint64_t full = 0, inside = 0;
  for (const MemoryBlock& block : parts.blocks) {
    if (block.cache.heads == 0) continue;
    uint64_t& tokens = block.cache.window ? inside : full;
    tokens = std::max(tokens, kept_tokens(choice, block.cache.window));
  }
  return product(sum(full, inside), kFloat16);
}

}  // namespace

Result<Buffers> buffers_of(const MemoryParts& parts, const MemoryChoice& choice, Place place, uint64_t moved) {
  const uint64_t batch = std::min(choice.batch, choice.context);
  const Number masks = product(batch, mask_bytes(parts, choice));
  const Number embeddings = product(batch, product(2 * kFloat32, parts.hidden));  // the input of the model, of a layer
  const Number logits = product(kFloat32, product(batch, parts.vocabulary));
  const Number rotated = choice.kv_type.find('q') == choice.kv_type.npos  // queries, for keys that are quantised
                             ? Number(0)
                             : product(kFloat32, product(batch, parts.hidden));
  Number layer = sum(sum(masks, embeddings), product(kFloat32, product(batch, parts.inside)));
  if (place == Place::both) layer = sum(layer, sum(masks, moved));
  const Number output = sum(logits, embeddings);
  const Number kept = sum(masks, embeddings);  // what the host prepares for the GPU
  const Number most = sum(rotated, std::max(layer.value_or(kMostBytes), output.value_or(kMostBytes)));
  const Number last = product(kFloat32, parts.vocabulary);  // the logits of a token
  if (sum(sum(most, kept), last).value_or(kMostBytes) >= kMostBytes)
    return failure(Code::unsupported, "the buffers have more bytes than any memory");
  if (place == Place::host) return Buffers{0, *most + *last};
  return Buffers{*most, *kept + *last};
}

}  // namespace weightfs::summary
