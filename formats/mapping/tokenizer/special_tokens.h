// The special tokens of a tokenizer: their ids, and which are added to a text. They come from tokenizer.json,
// tokenizer_config.json and config.json, in this order; generation_config.json and special_tokens_map.json do not count
// (gguf-py, class SpecialVocab).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/values/value.h"
#include "formats/mapping/keys.h"
#include "formats/mapping/tokenizer/tokenizer_json.h"

namespace weightfs::mapping {

/// The files beside a model that describe its tokenizer.
struct TokenizerFiles {
  const TokenizerJson* json = nullptr;    ///< tokenizer.json; null if there is none
  const Map* tokenizer_config = nullptr;  ///< null if there is none, and if it has no fields
  const Map* config = nullptr;            ///< config.json, never null
};

/// The text of a field of tokenizer_config.json such as bos_token: a text, or an object with its content.
std::optional<std::string> text_of_token(const Value* stated);

/// Types of tokens ("bos", "eos", "unk", …) in the order in which they were found.
class SpecialTokens {
 public:
  /// Ids from `count` on are no ids of tokens, if it is known.
  SpecialTokens(const TokenizerFiles& files, std::optional<uint64_t> count);

  /// Sets an id unless there is one.
  void set(std::string_view type, uint64_t id);

  /// Adds *_token_id, then add_*_token.
  void add_to(Keys& keys) const;

 private:
  void set_by_config(const Map& config);

  std::optional<uint64_t> count_;
  std::vector<std::pair<std::string, uint64_t>> ids_;
  std::vector<std::pair<std::string, bool>> added_;
  std::vector<std::string> types_ = {"bos", "eos", "unk", "sep", "pad", "cls", "mask"};
};

/// Adds normalizer.lowercase and .strip_accents by the normalizer of a tokenizer.json, if it states them.
void add_normalizer(const Value& normalizer, Keys& keys);

}  // namespace weightfs::mapping
