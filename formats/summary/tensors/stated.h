// What files state about the packing of weights: quantization_config, quantize_config.json, hf_quant_config.json,
// mlc-chat-config.json, the metadata of safetensors.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/summary/fields.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

/// Parses a text that is a JSON object; null if it is none. The object lives as long as the summary is made.
using ParseObject = std::function<const Map*(const std::string& text)>;

struct StatedPacking {
  /// A group of compressed-tensors: how the modules that it names are packed.
  struct Group {
    Number bits, size;
    std::vector<std::string> targets;  ///< names, patterns ("re:…") or classes; empty if they are not known
  };

  std::string method;     ///< quant_method in lower case: "gptq"
  std::string algorithm;  ///< quant_algo: "NVFP4"
  std::string mode;       ///< of MLX: "affine", "mxfp4", …; empty if there is none
  std::string code;       ///< of MLC: "q4f16_1"
  std::string experts;    ///< the type of routed experts: "fp4"
  Number bits, group_size;
  bool is_fp4 = false;          ///< of bitsandbytes: else NF4
  bool has_own_bits = false;    ///< GPTQ: some modules have another number of bits
  bool has_own_groups = false;  ///< GPTQ: some modules have groups of another size
  std::vector<Group> groups;
  std::map<std::string_view, const Map*> modules;  ///< objects with the facts of one module, by its name

  /// The groups that scales may have, the most probable first.
  std::vector<uint64_t> group_sizes() const;
};

/// `config`: config.json; `quantisation`: the object in it or beside it that describes the packing.
StatedPacking stated_packing(const Fields& config, const Fields& quantisation);

/// The number of bits in the name of a method or a type: 4 of "w4afp8", "int4", "Int4WeightOnlyConfig". If a name has
/// types of activations and of weights, the bits of the weights.
Number bits_in_name(std::string_view name);

/// The shape of a weight that torchao has flattened, in the metadata of safetensors: the product of its sizes. `weight`
/// is its name without the end.
Number flattened_elements(const Map& metadata, std::string_view module, const ParseObject& parse);

}  // namespace weightfs::summary
