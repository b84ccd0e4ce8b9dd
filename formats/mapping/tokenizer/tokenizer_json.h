// tokenizer.json of Hugging Face's tokenizers, read as a stream: it has up to 33 MB, a vocabulary of 260,000 texts and
// 515,000 merges.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "base/source.h"
#include "base/string_arena.h"
#include "base/values/value.h"

namespace weightfs::mapping {

inline constexpr uint64_t kMaxTokenizerFile = uint64_t{64} << 20;  ///< of tokenizer.json and tokenizer.model, in bytes
inline constexpr uint64_t kMaxTokens = 2'000'000;                  ///< of a vocabulary, of its merges, of added tokens
inline constexpr uint64_t kMaxTokenText = uint64_t{64} << 10;      ///< of a token, in bytes

/// A text of model.vocab; its memory belongs to the TokenizerJson.
struct VocabEntry {
  std::string_view text;
  uint32_t id = 0;
  float score = 0;  ///< of Unigram
};

/// An object of added_tokens.
struct AddedToken {
  std::string text;
  uint64_t id = 0;
  bool is_special = false;
};

/// The merges, in order, as an array of texts of a GGUF has them: "a b". A space inside of a part is U+0120.
struct Merges {
  uint64_t count = 0;
  std::string encoded;
};

/// What is in a tokenizer.json. Its memory is charged to the budget, which outlives it, while it exists.
struct TokenizerJson {
  explicit TokenizerJson(Budget& budget) : charges(budget, Charges::Pass::together) {}

  // model
  std::string type;  ///< "BPE", "WordPiece", "Unigram"; by its other fields in a file without one
  std::string subword_prefix;
  bool has_byte_fallback = false;
  bool ignores_merges = false;
  uint64_t vocab_count = 0;
  uint64_t merge_count = 0;
  uint64_t end_of_ids = 0;        ///< one more than the largest id, also of added tokens
  std::vector<VocabEntry> vocab;  ///< in the order of the file
  Merges merges;

  std::vector<AddedToken> added;
  Value normalizer, pre_tokenizer, post_processor, decoder;  ///< null where the file has none

  StringArena texts;
  Charges charges;
};

/// What is kept of model.vocab and model.merges.
enum class Keep {
  everything,  ///< but the vocabulary of Unigram, which has no other form in llama.cpp
  counts,
  vocabulary  ///< also of Unigram; no merges
};

/// Fails with corrupt on invalid JSON and on values of another form than that of the library, with unsupported beyond
/// the limits above, and as Budget::charge and reading do.
Result<std::unique_ptr<TokenizerJson>> read_tokenizer_json(const Source& file, Keep keep, Budget& budget);

}  // namespace weightfs::mapping
