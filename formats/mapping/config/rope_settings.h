// The rotary position embeddings of a config.json, in any of the forms that transformers had: fields of config.json,
// rope_scaling, rope_parameters, and the latter with an object for each kind of attention.
#pragma once

#include <string>

#include "formats/mapping/config/settings.h"

namespace weightfs::mapping {

struct RopeSettings {
  summary::Fields own;   ///< rope_parameters or rope_scaling; without fields if there is neither
  summary::Fields full;  ///< of layers with full attention; the same as `own` if it has no object for them
  bool by_attention;     ///< `own` has an object for each kind of attention
  std::string type;      ///< "llama3", "yarn", …; empty if there is none
  Real theta;            ///< the base of the frequencies
  Real theta_swa;        ///< of layers with a sliding window
  Real partial;          ///< the fraction of a head that is rotated
  Integer original;      ///< original_max_position_embeddings
};

/// Refusals are in `settings`.
RopeSettings rope_settings(Repository& repository, Settings& settings);

}  // namespace weightfs::mapping
