// Scores of SentencePiece for a vocabulary that has merges instead.
#pragma once

#include "base/budget.h"
#include "base/result.h"
#include "formats/mapping/tokenizer/tokenizer_json.h"
#include "formats/mapping/tokenizer/tokens.h"

namespace weightfs::mapping {

/// Sets the score of each token that a merge makes to minus the index of the first such merge. Fails as Budget::charge
/// does.
Result<void> set_scores_by_merges(const Merges& merges, Tokens& tokens, Budget& budget);

}  // namespace weightfs::mapping
