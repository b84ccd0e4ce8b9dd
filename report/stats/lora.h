// Pairs of LoRA factors, and what their products are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/tensor_list.h"

namespace weightfs::stats {

/// The product B · A of two factors, without a scale such as alpha / rank.
struct LoraFigures {
  std::string name;  ///< of the factors, without lora_A and lora_B
  uint64_t rank;
  Result<std::vector<double>> singular_values;  ///< the largest first

  double norm() const;  ///< Frobenius; of values that are known
};

/// A tensor that may be one of a pair.
struct LoraFactor {
  std::string name;
  TensorView tensor;
};

/// Whether a tensor is a factor by its name: lora_A and lora_B (PEFT), lora_a and lora_b (GGUF), lora_down and lora_up
/// (kohya).
bool is_lora_factor(const std::string& name);

/// The pairs among tensors, by their names. The third dimension and more of convolutions belong to the columns of A.
std::vector<LoraFigures> lora_figures(const std::vector<LoraFactor>& factors);

}  // namespace weightfs::stats
