// The small parts of a tokenizer.json, and the texts of its tokens.
#pragma once

#include <cstdint>
#include <string>

#include "base/values/value.h"
#include "formats/mapping/hub/stored_tokens.h"
#include "formats/mapping/hub/tokenizer_settings.h"

namespace weightfs::mapping {

struct TokenizerParts {
  Value normalizer, pre_tokenizer, post_processor, decoder;
  Map model;  ///< without its vocabulary and merges
};

TokenizerParts tokenizer_parts(const TokenizerSettings& settings, const StoredTokens& tokens);

/// The fields of tokenizer_config.json, but for chat templates.
Map tokenizer_config_fields(const TokenizerSettings& settings, const StoredTokens& tokens);

/// Whether a token is found in a text before anything else is done with it.
bool is_added(const StoredTokens& tokens, uint64_t id);

/// Whether an id has no token: its text is "[PAD7]".
bool is_gap(const StoredTokens& tokens, uint64_t id);

/// The text of a token in the vocabulary: of WordPiece `##x` for `x`, and `x` for U+2581 and `x`.
std::string vocabulary_text(const TokenizerSettings& settings, const StoredTokens& tokens, uint64_t id);

/// Spaces of user-defined tokens become U+2581 again where the merges make such tokens. Fails as Budget::charge does.
Result<void> restore_spaces(const TokenizerSettings& settings, StoredTokens& tokens);

}  // namespace weightfs::mapping
