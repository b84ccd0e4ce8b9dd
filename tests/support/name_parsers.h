// Parsers of the names of tensors for each architecture of the table of names.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "formats/names/names.h"
#include "formats/summary/tensors/tensor_name.h"

namespace weightfs::test {

/// The numbers in a name of a row.
inline constexpr mapping::Numbers kRowNumbers{7, 3, ".weight"};

/// A class of transformers for each architecture.
inline constexpr auto kRowClasses = std::to_array<const char*>(
    {"LlamaForCausalLM", "GraniteForCausalLM", "SmolLM3ForCausalLM", "Ministral3ForCausalLM", "Qwen2ForCausalLM",
     "Qwen2MoeForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM",
     "Gemma2ForCausalLM", "Gemma3ForCausalLM", "Gemma4ForCausalLM", "GptOssForCausalLM", "Phi3ForCausalLM",
     "Olmo2ForCausalLM", "Glm4ForCausalLM", "BertModel", "DeepseekV3ForCausalLM"});

inline summary::NameParser by_class(std::string class_name) {
  summary::Summary known;
  known.architecture_class = std::move(class_name);
  return {known, false};
}

inline summary::NameParser by_architecture(std::string_view architecture) {
  summary::Summary known;
  known.architecture = architecture;
  return {known, true};
}

}  // namespace weightfs::test
