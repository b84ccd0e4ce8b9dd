// The facts in config.json of transformers and its kin, by all the names that they have there.
#pragma once

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

/// The keys and values per token; nothing for a model without a cache, or if the file does not state enough.
std::optional<KvCache> cache_by_config(const Config& config, const Summary& known);

}  // namespace weightfs::summary
