// The tokens that merges make, and scores of SentencePiece for a vocabulary that has merges instead.
#pragma once

#include "base/budget.h"
#include "base/result.h"
#include "formats/mapping/tokenizer/tokenizer_json.h"
#include "formats/mapping/tokenizer/tokens.h"

namespace weightfs::mapping {

/// Sets the score of each token that a merge makes to minus the index of the first such merge. Fails as Budget::charge
/// does.
Result<void> set_scores_by_merges(const Merges& merges, Tokens& tokens, Budget& budget);

/// Fails with corrupt if a merge makes no token, as the tokenizers of Hugging Face do: llama.cpp would merge, and then
/// show the bytes one by one. Fails as Budget::charge does.
Result<void> check_merges(const Merges& merges, const Tokens& tokens, Budget& budget);

}  // namespace weightfs::mapping
