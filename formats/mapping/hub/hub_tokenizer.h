// tokenizer.json and tokenizer_config.json of a GGUF: the keys of formats/mapping/tokenizer backwards.
#pragma once

#include <string>

#include "base/result.h"
#include "formats/model.h"

namespace weightfs::mapping {

/// tokenizer.json of Hugging Face's tokenizers. Reads the lists of the GGUF. The text stays charged to the budget.
/// Fails as tokenizer_settings() and read_tokens() do, and as Budget::charge and reading do.
Result<std::string> hub_tokenizer(const Model& gguf, Budget& budget);

/// tokenizer_config.json: the special tokens and the chat templates. Fails as hub_tokenizer() does.
Result<std::string> hub_tokenizer_config(const Model& gguf, Budget& budget);

}  // namespace weightfs::mapping
