// Tensors of a GGUF that no repository has: factors of rotary position embeddings, made of config.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/mapping/repository.h"

namespace weightfs::mapping {

struct NamedFloats {
  std::string name;  ///< "rope_freqs.weight"
  std::vector<float> values;
};

/// In the converter's order; none for most models. The values are those of torch's float32, step by step. Fails with
/// unsupported, in a sentence, if config.json has impossible values.
Result<std::vector<NamedFloats>> generated_tensors(Repository& repository);

/// The scaling that config.json calls llama3.
struct Llama3Scaling {
  double factor = 0;
  double low = 0;       ///< low_freq_factor
  double high = 0;      ///< high_freq_factor
  double original = 0;  ///< original_max_position_embeddings
};

/// The values of rope_freqs.weight for heads of `head_dim` elements: by how much each frequency is slowed.
std::vector<float> llama3_factors(const Llama3Scaling& scaling, double theta, uint32_t head_dim);

/// phi3's rope.scaling.attn_factor; nothing if the model has no long factors, or as generated_tensors() fails.
std::optional<double> attention_factor(Repository& repository);

}  // namespace weightfs::mapping
