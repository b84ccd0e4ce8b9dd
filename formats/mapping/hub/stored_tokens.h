// The tokenizer of a GGUF as its file stores it. Its lists have hundreds of thousands of elements, which
// Model::metadata does not keep.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "base/string_arena.h"
#include "formats/gguf/values.h"
#include "formats/gguf_keys.h"

namespace weightfs::mapping {

/// A value of the metadata where it is stored.
struct StoredKey {
  Slice bytes;  ///< of the value, after its type; the model owns them
  gguf::StoredValue value;
  std::endian order = std::endian::little;
};

/// The keys tokenizer.* as they are stored. Not thread-safe.
class StoredTokenizer {
 public:
  /// Finds the keys. Fails with corrupt if they cannot be read, and as Budget::charge and reading do.
  static Result<StoredTokenizer> find(const GgufKeys& keys, Budget& budget);

  /// The text of a key, or empty if there is none. Fails with unsupported above 4 MiB.
  Result<std::string> text(std::string_view key) const;

  /// Calls `use` with each text of a list; nothing if there is no list of texts.
  Result<void> each_text(std::string_view key, const std::function<Result<void>(std::string_view)>& use) const;

  /// A list of numbers; empty if there is none.
  Result<std::vector<double>> numbers(std::string_view key) const;

 private:
  const StoredKey* list(std::string_view key, gguf::ValueType element) const;

  std::vector<std::pair<std::string, StoredKey>> keys_;
};

/// The tokens by their ids. Charged to the budget, which outlives it, while it exists.
struct StoredTokens {
  explicit StoredTokens(Budget& budget) : charges(budget, Charges::Pass::together) {}

  std::vector<std::string_view> texts;
  std::vector<int32_t> types;  ///< llama_token_type; of each token
  std::vector<float> scores;   ///< empty if there are none
  StringArena arena;
  Charges charges;
};

/// Fails with unsupported if there are no tokens, or more than 2,000,000; with corrupt if the lists have different
/// lengths; and as StoredTokenizer does. Without token types, all are normal.
Result<StoredTokens> read_tokens(const StoredTokenizer& stored, Budget& budget);

}  // namespace weightfs::mapping
