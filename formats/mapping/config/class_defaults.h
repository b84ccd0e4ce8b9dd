// What a config.json leaves out because it is the default of its class in transformers (4.57 and 5;
// configuration_*.py).
#pragma once

#include <optional>
#include <string_view>

namespace weightfs::mapping {

/// The class without the task: "Llama" of LlamaForCausalLM, "Gemma3" of Gemma3ForConditionalGeneration.
std::string_view family_of_class(std::string_view class_name);

/// The default of a number, or of true and false as 1 and 0, in the class of this family. Nothing where a GGUF without
/// the key is read in the same way, and where a repository without the field is more likely damaged: sizes of tensors.
std::optional<double> class_default(std::string_view family, std::string_view field);

}  // namespace weightfs::mapping
