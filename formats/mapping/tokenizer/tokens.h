// The tokens of a vocabulary by their ids, and the arrays tokenizer.ggml.* that a GGUF has of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "base/string_arena.h"
#include "formats/mapping/keys.h"

namespace weightfs::mapping {

/// U+2581, which stands for a space in SentencePiece.
inline constexpr std::string_view kSpaceOfPieces = "\xE2\x96\x81";

/// llama_token_type (llama.h).
enum class TokenType : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// Ids from 0 on. An id without a token is unused: its text is "[PAD7]". Charged to the budget, which outlives it,
/// while it exists.
class Tokens {
 public:
  static constexpr float kUnusedScore = -10'000;

  /// Fails as Budget::charge does.
  static Result<Tokens> of(uint64_t count, Budget& budget);

  uint64_t count() const { return all_.size(); }
  bool has(uint64_t id) const { return all_[id].is_set; }
  std::string_view text(uint64_t id) const { return all_[id].text; }  ///< empty if unused
  TokenType type(uint64_t id) const { return all_[id].type; }

  /// Sets a token; `id` is below count(). The text belongs to another owner, or to keep().
  void set(uint64_t id, std::string_view text, TokenType type, float score = 0);
  void set_type(uint64_t id, TokenType type) { all_[id].type = type; }
  void set_score(uint64_t id, float score) { all_[id].score = score; }

  /// A copy of a text that lives as long as the tokens. Fails as Budget::charge does.
  Result<std::string_view> keep(std::string_view text);

  // tokens, scores and token_type. Each fails as Budget::charge does; the charges are left to `written`. The first
  // fails with corrupt if two ids have one text: llama.cpp would end the process.
  Result<void> add_texts(Keys& keys, Charges& written) const;
  Result<void> add_scores(Keys& keys, Charges& written) const;
  Result<void> add_types(Keys& keys, Charges& written) const;

 private:
  struct Token {
    std::string_view text;
    float score = kUnusedScore;
    TokenType type = TokenType::unused;
    bool is_set = false;
  };

  explicit Tokens(Budget& budget) : budget_(&budget), charges_(budget, Charges::Pass::together) {}
  Result<void> check_texts() const;

  Budget* budget_;
  Charges charges_;
  std::vector<Token> all_;
  StringArena texts_;
};

/// Whether an added token is one of control by its text alone, as in the converter: "<|im_end|>".
bool looks_special(std::string_view text);

/// `text` with a space for each kSpaceOfPieces.
std::string with_spaces(std::string_view text);

/// Whether `text` is a byte of SentencePiece: "<0x0A>".
bool is_byte_token(std::string_view text);

}  // namespace weightfs::mapping
