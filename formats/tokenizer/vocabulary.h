// The tokens of a language model for people: listed by id, and found by text. They come from the keys of a GGUF or from
// the files of a repository.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/string_arena.h"
#include "formats/model.h"

namespace weightfs::tokenizer {

/// What a token is for, with the numbers of llama_token_type (llama.h).
enum class TokenKind : uint8_t { unstated = 0, normal, unknown, control, user_defined, unused, byte };

/// "normal", "control", "user-defined", …; "" if nothing states it.
std::string_view to_text(TokenKind kind);

/// How tokens spell the bytes of a text.
enum class Spelling : uint8_t {
  plain,
  pieces,      ///< U+2581 is a space (SentencePiece)
  byte_level,  ///< each byte is a character: U+0120 is a space (GPT-2)
};

struct Token {
  uint32_t id = 0;
  TokenKind kind = TokenKind::unstated;
  float score = 0;
  std::string_view text;  ///< as it is stored, any bytes
};

/// Which tokens a search finds.
struct TokenQuery {
  /// `id 13` and `id 13-20` find ids; any other text finds the tokens that have it, in either spelling, whatever the
  /// case of ASCII. A number finds its id, too, which then comes first.
  std::string text;
  std::optional<TokenKind> kind;  ///< only tokens of this kind
};

class Vocabulary {
 public:
  /// `stated_in`: the key or the file that has the tokens.
  Vocabulary(std::string stated_in, Spelling spelling) : stated_in_(std::move(stated_in)), spelling_(spelling) {}

  /// In the order of ids, which may have gaps.
  const std::vector<Token>& tokens() const { return tokens_; }
  const std::string& stated_in() const { return stated_in_; }
  bool has_scores() const { return has_scores_; }

  /// The text that a token stands for, if it is spelled otherwise and is a text; else nothing.
  std::optional<std::string> readable(const Token& token) const;

  /// The places of the tokens that a query finds. Fails with resource when it is cancelled.
  Result<std::vector<uint32_t>> find(const TokenQuery& query) const;

  // For the readers.

  /// Adds a token; its text is copied.
  void add(const Token& token);
  /// Sorts, and marks the tokens with these ids and texts, or adds them.
  void add_special(const std::vector<Token>& special);
  void set_scored() { has_scores_ = true; }
  void set_kind(size_t place, TokenKind kind) { tokens_[place].kind = kind; }
  void set_score(size_t place, float score) { tokens_[place].score = score; }

 private:
  bool is_spelled() const { return spelling_ != Spelling::plain; }
  bool mark(const Token& special);
  void sort();

  std::string stated_in_;
  Spelling spelling_;
  bool has_scores_ = false;
  std::vector<Token> tokens_;
  StringArena texts_;
};

using VocabularyPtr = std::shared_ptr<const Vocabulary>;

/// Reads the tokens of a model: tokenizer.ggml.tokens, else tokenizer.json, tokenizer.model, vocab.json, or vocab.txt
/// beside it. Null if it has none. At most 2,000,000 tokens. Fails with unsupported beyond the limits, with corrupt on
/// a damaged file, and as reading does. The cost is bounded by the size of the files, as a budget of its own.
Result<VocabularyPtr> read_vocabulary(const Model& model);

}  // namespace weightfs::tokenizer
