// tokenizer.ggml.pre as the converter finds it: by the tokens of a text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/mapping/tokenizer/tokenizer_json.h"

namespace weightfs::mapping {

/// The ids of the parts of the text, as this pre-tokenizer splits it; nothing if a character has none.
std::optional<std::vector<uint64_t>> tokens_of_test_text(const TokenizerJson& json, std::string_view family);

/// The name of a byte-level BPE whose pre-tokenizer is of `family`, the first name in its table; empty if its tokens of
/// the text are not those of a tokenizer that the converter knows. `before` and `after` are added to each text.
std::string_view name_by_tokens(const TokenizerJson& json, std::string_view family, std::span<const uint64_t> before,
                                std::span<const uint64_t> after);

}  // namespace weightfs::mapping
