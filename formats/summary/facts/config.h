// The facts in config.json of transformers and its kin, by all the names that they have there.
#pragma once

#include <map>

#include "formats/summary/facts/cache.h"
#include "formats/summary/fields.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

/// A config.json, or Meta's or Mistral's params.json.
struct Config {
  Fields outer;  ///< the whole object
  Fields text;   ///< the object of the text model: the same, or one below it
  std::string model_type;
  bool is_encoder_decoder = false;
};

/// Finds the text model. `object` is the whole file.
Config open_config(const Fields& object);

/// Sets what the file states of architecture, layers, experts, context and vocabulary.
void describe_config(const Config& config, Summary& out);

/// Whether the cache has compressed keys and values (MLA).
bool has_compressed_cache(const Fields& text);

/// The rows of the matrices that make the keys, by layer, as far as they are plain.
using KeyRows = std::map<uint64_t, uint64_t>;

/// The keys and values per token; nothing for a model without a cache, if the file does not state enough, if it states
/// attention of a kind that is not known, and if `rows` contradict it.
std::optional<ModelCache> cache_by_config(const Config& config, const Summary& known, const KeyRows& rows);

}  // namespace weightfs::summary
