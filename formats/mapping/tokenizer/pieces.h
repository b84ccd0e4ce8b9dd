// The pieces of a tokenizer.model, which SentencePiece writes: its vocabulary with scores.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "base/source.h"
#include "base/string_arena.h"
#include "formats/mapping/tokenizer/tokens.h"

namespace weightfs::mapping {

/// A SentencePiece of a ModelProto (sentencepiece_model.proto); its id is its place.
struct Piece {
  std::string_view text;  ///< its memory belongs to the Pieces
  float score = 0;
  TokenType type = TokenType::normal;  ///< a user-defined piece is a normal one, as in the converter
};

/// Charged to the budget, which outlives it, while it exists.
struct Pieces {
  explicit Pieces(Budget& budget) : charges(budget, Charges::Pass::together) {}

  std::vector<Piece> all;
  StringArena texts;
  Charges charges;
};

/// Fails with corrupt on a damaged file, with unsupported beyond the limits of tokenizer_json.h and if the pieces are
/// those of a Unigram model, which llama.cpp would merge as if they were of BPE, and as Budget::charge and reading do.
Result<Pieces> read_pieces(const Source& file, Budget& budget);

}  // namespace weightfs::mapping
