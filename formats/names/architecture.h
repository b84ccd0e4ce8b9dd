// The architectures of llama.cpp that a repository of the Hub can be shown in, and the classes of transformers whose
// weights they have. Followed: llama.cpp v0.5.0 (conversion/*.py).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weightfs::mapping {

/// general.architecture of a GGUF.
enum class Arch : uint8_t {
  llama,
  granite,
  smollm3,
  mistral3,
  qwen2,
  qwen2moe,
  qwen3,
  qwen3moe,
  qwen35,
  qwen35moe,
  gemma2,
  gemma3,
  gemma4,
  gpt_oss,
  phi3,
  olmo2,
  glm4,
  bert,
  deepseek2,
};

/// A row of the table of architectures.
struct Architecture {
  Arch id;
  std::string_view name;           ///< general.architecture: "gpt-oss", and the prefix of its keys
  bool permutes_heads = false;     ///< rows of queries and keys are in the order of ROPE NORM
  bool adds_one_to_norms = false;  ///< norms of the repository lack the 1 that their weights have in a GGUF
};

std::span<const Architecture> architectures();

/// The row of a class of transformers; null if there is none.
const Architecture* architecture_of_class(std::string_view name);

/// The row of a value of general.architecture; null if there is none.
const Architecture* architecture_named(std::string_view name);

}  // namespace weightfs::mapping
