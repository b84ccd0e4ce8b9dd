// What the name of a repository says, by the conventions of the Hub: "Llama-3.1-8B-Instruct".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weightfs::mapping {

/// The parts of a name. Nothing where the name has no such part.
struct ModelName {
  std::string full;  ///< without the organization
  std::optional<std::string> organization;
  std::optional<std::string> basename;    ///< "Llama-3.1"
  std::optional<std::string> finetune;    ///< "Instruct"
  std::optional<std::string> version;     ///< "v0.3"
  std::optional<std::string> size_label;  ///< "8B"
};

/// The parts of a name as gguf-py finds them (metadata.py). A size that is far from `parameters`, the number of the
/// model's, is no size: it is often the length of the context.
ModelName parse_model_name(std::string_view name, uint64_t parameters);

/// The name for people: words that have no capital letter begin with one, but for numbers and versions.
std::string title_of(std::string_view name);

}  // namespace weightfs::mapping
