// The vocabulary of a tokenizer.json or a tokenizer.model as the tokens of a GGUF.
#pragma once

#include <cstdint>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "base/values/value.h"
#include "formats/mapping/tokenizer/pieces.h"
#include "formats/mapping/tokenizer/tokenizer_json.h"
#include "formats/mapping/tokenizer/tokens.h"

namespace weightfs::mapping {

// The tokens of a GGUF with `count` of them, which refer to the texts of `json`. `config` is tokenizer_config.json, or
// null. Each fails with corrupt if an id has two tokens or a token two ids, with unsupported if an id is not below
// `count`, and as Budget::charge does.

/// Byte-level BPE: each added token is of control or user-defined.
Result<Tokens> byte_level_tokens(const TokenizerJson& json, const Map* config, uint64_t count, Budget& budget);

/// WordPiece: `##x` becomes `x`, and other texts begin with U+2581.
Result<Tokens> wordpiece_tokens(const TokenizerJson& json, const Map* config, uint64_t count, Budget& budget);

/// BPE with byte fallback, as SentencePiece has it. The score of a token is minus the index of the first merge that
/// makes it, so that llama.cpp merges in the same order; the converter would write -1000 for each.
Result<Tokens> scored_tokens(const TokenizerJson& json, const Map* config, uint64_t count, Budget& budget);

/// Gemma 4: as scored_tokens(), but each score is -1000, because the merges are stored too.
Result<Tokens> gemma4_tokens(const TokenizerJson& json, const Map* config, uint64_t count, Budget& budget);

/// The tokens of added_tokens_decoder of tokenizer_config.json. Fails with corrupt if one has another form.
Result<std::vector<AddedToken>> tokens_of_config(const Map* config);

/// The tokens of a tokenizer.model; pieces from `count` on are ignored, as in the converter.
Result<Tokens> piece_tokens(const Pieces& pieces, uint64_t count, Budget& budget);

/// How the added tokens of other files than tokenizer.model are taken.
enum class AddedRule {
  by_look,     ///< one that looks special is of control; in others U+2581 becomes a space
  as_written,  ///< of control if they are called special
};

/// Sets added tokens in place of others with their ids; ids beyond the vocabulary are ignored, as in the converter.
Result<void> replace_pieces(const std::vector<AddedToken>& added, AddedRule rule, Tokens& tokens);

}  // namespace weightfs::mapping
