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
  TokenType type = TokenType::normal;
};

/// Charged to the budget, which outlives it, while it exists.
struct Pieces {
  explicit Pieces(Budget& budget) : charges(budget, Charges::Pass::together) {}

  std::vector<Piece> all;
  StringArena texts;
  Charges charges;
};

/// For what pieces are read.
enum class PiecesFor {
  /// A user-defined piece is a normal one, as in the converter. Those of a Unigram model are refused with unsupported:
  /// llama.cpp would merge them as if they were of BPE.
  gguf,
  people,  ///< as they are stored
};

/// Fails with corrupt on a damaged file, with unsupported beyond the limits of tokenizer_json.h, and as Budget::charge
/// and reading do.
Result<Pieces> read_pieces(const Source& file, Budget& budget, PiecesFor purpose = PiecesFor::gguf);

}  // namespace weightfs::mapping
