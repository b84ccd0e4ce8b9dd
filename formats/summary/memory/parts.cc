#include "formats/summary/memory/parts.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/summary/facts/config_file.h"
#include "formats/summary/facts/gguf_cache.h"
#include "formats/summary/fields.h"
#include "formats/summary/memory.h"
#include "formats/summary/tensors/tensor_name.h"
#include "formats/summary/tensors/totals.h"

namespace weightfs::summary {
namespace {

bool has_block(const TensorName& name) { return name.is_text() && name.layer != TensorName::kNone; }

// Adds the tensors of a model to its blocks.
class Placement {
 public:
  Placement(const Summary& summary, MemoryParts& out) : summary_(summary), out_(out) {}

  void add(const TensorName& name, uint64_t bytes) {
    if (name.is_predictor || (has_block(name) && name.layer >= *summary_.layers)) return;  // of further tokens
    if (name.is_embedding || name.is_lookup) {
      out_.input += bytes;
      if (name.is_embedding && summary_.tied_embeddings.value_or(false)) out_.copied = bytes;
      return;
    }
    MemoryBlock& block = has_block(name) ? out_.blocks[name.layer] : out_.blocks.back();
    block.weights += bytes;
    if (name.expert == TensorName::kNone)
      block.largest = std::max(block.largest, bytes);
    else
      block.experts += bytes;
  }

  // Experts that are stored apart are three tensors of a GGUF.
  void finish() {
    for (MemoryBlock& block : out_.blocks) block.largest = std::max(block.largest, block.experts / 3);
  }

 private:
  const Summary& summary_;
  MemoryParts& out_;
};

// The number of blocks, with those that predict further tokens: llama.cpp counts them.
uint64_t count_blocks(const TensorNames& names, uint64_t layers) {
  for (const TensorName& name : names)
    if (has_block(name) && name.layer < kMaxLayers) layers = std::max(layers, uint64_t{name.layer} + 1);
  return layers;
}

tl::unexpected<Error> unknown(std::string_view what) { return failure(Code::unsupported, std::string(what)); }

Result<void> place_weights(const Model& model, const Summary& known, std::span<const Counted> counted,
                           MemoryParts& out) {
  const TensorNames names = parse_names(model.tensors, known, gguf_keys_of(model) != nullptr);
  const uint64_t blocks = count_blocks(names, *known.layers);
  out.blocks.resize(blocks + 1);
  Placement placement(known, out);
  Number total = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const Role role = counted[i].role;
    if (role != Role::parameter && role != Role::companion) continue;
    if (has_block(names[i]) && names[i].layer >= blocks)
      return unknown("the number of layers is not that of the tensors");
    const uint64_t bytes = listed_bytes(model.tensors, i);
    total = sum(total, bytes);
    if (total.value_or(kMostBytes) >= kMostBytes) return unknown("its tensors have more bytes than any memory");
    placement.add(names[i], bytes);
  }
  placement.finish();
  return {};
}

// What the layers keep, which the summary has as a sum.
std::optional<ModelCache> find_caches(const Model& model, const Summary& known) {
  std::vector<std::string> warnings;
  if (const Map* const keys = gguf_keys_of(model))
    return cache_by_keys(Fields(keys, "gguf", warnings, known.architecture + "."), model.tensors, known);
  SmallFiles files(model);
  const Config config = read_config(files);
  if (!config.outer) return std::nullopt;
  return cache_by_config(config, known, key_rows_of(model.tensors, parse_names(model.tensors, known, false)));
}

Result<void> place_caches(const ModelCache& cache, MemoryParts& out) {
  const auto states = static_cast<uint64_t>(std::ranges::count_if(cache.layers, &LayerCache::has_state));
  if (states > 0 && !cache.total.recurrent_state_bytes)
    return unknown("the state of its recurrent layers is not known");
  if (states > 0) out.state = *cache.total.recurrent_state_bytes / states;
  if (cache.layers.size() >= out.blocks.size()) return unknown("the number of layers is not that of the tensors");
  for (size_t i = 0; i < cache.layers.size(); ++i) out.blocks[i].cache = cache.layers[i];
  return {};
}

// What a layer computes at once, in elements for a token: two products of the feed-forward part, and their product; for
// each expert that is used what it returns, and that with its weight; of a recurrent layer as measured.
Number inside_of(const Summary& known, const MemoryParts& parts) {
  Number out = product(3, known.ffn_size.value_or(0));
  if (known.experts_used) {
    const Number ffn = known.expert_ffn_size ? known.expert_ffn_size : known.ffn_size;
    const Number experts = product(known.experts_used, sum(product(2, known.hidden_size), ffn));
    out = out && experts ? Number(std::max(*out, *experts)) : Number();
  }
  const Number recurrent = product(14, known.hidden_size);
  if (parts.state > 0) out = out && recurrent ? Number(std::max(*out, *recurrent)) : Number();
  // Gemma normalises what attention and the feed-forward part return.
  return known.architecture.starts_with("gemma") ? sum(out, product(2, known.hidden_size)) : out;
}

}  // namespace

bool generates_text(const Summary& summary) { return summary.kind == "causal-lm" || summary.kind == "vision-language"; }

Result<MemoryParts> memory_parts(const Model& model, const Summary& known, std::span<const Counted> counted) {
  if (!generates_text(known))
    return unknown(fmt::format("it is not a language model ({}), so that it keeps no keys and values", known.kind));
  if (known.weight_bytes == 0) return unknown("tensors are missing");
  if (!known.layers || *known.layers == 0 || *known.layers > kMaxLayers) return unknown("its layers are not known");
  const auto caches = known.kv_cache ? find_caches(model, known) : std::nullopt;
  if (!caches || caches->layers.empty()) return unknown("what its attention keeps is not known");
  if (!known.hidden_size || !known.vocabulary_size) return unknown("its width or its vocabulary is not known");
  MemoryParts out;
  TRY_VOID(place_weights(model, known, counted, out));
  TRY_VOID(place_caches(*caches, out));
  const Number inside = inside_of(known, out);
  if (!inside) return unknown("its feed-forward part is too large");
  out.context = known.context_length;
  out.hidden = *known.hidden_size;
  out.vocabulary = *known.vocabulary_size;
  out.inside = *inside;
  return out;
}

}  // namespace weightfs::summary
