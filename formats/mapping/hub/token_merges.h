// The merges of a tokenizer.json: as a GGUF stores them, or made of the scores of its pieces.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "formats/mapping/hub/stored_tokens.h"

namespace weightfs::mapping {

/// Pairs of tokens that are merged, the most important first. Charged to the budget, which outlives it, while it
/// exists.
struct TokenMerges {
  explicit TokenMerges(Budget& budget) : charges(budget, Charges::Pass::together) {}

  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  std::vector<bool> makes;  ///< for each token, whether one of stored_merges() makes it
  Charges charges;
};

// Each fails as Budget::charge and reading do.

/// Those of tokenizer.ggml.merges whose tokens exist: a tokenizer.json with another one is refused by its library.
Result<TokenMerges> stored_merges(const StoredTokenizer& stored, const StoredTokens& tokens, Budget& budget);

/// For each piece the pairs of pieces that it consists of, pieces of higher scores first: SentencePiece merges to the
/// piece with the highest score.
Result<TokenMerges> merges_by_scores(const StoredTokens& tokens, Budget& budget);

/// Makes tokens user-defined that no merge makes: they are found in a text as they are, or never. The converter stores
/// those of Gemma 4 as normal ones. Not for texts of one character.
void define_tokens_without_merges(const TokenMerges& merges, StoredTokens& tokens);

}  // namespace weightfs::mapping
