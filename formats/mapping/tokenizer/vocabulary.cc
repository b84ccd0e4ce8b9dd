#include "formats/mapping/tokenizer/vocabulary.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "base/text.h"
#include "formats/mapping/tokenizer/merge_scores.h"
#include "formats/mapping/tokenizer/special_tokens.h"

namespace weightfs::mapping {
namespace {

constexpr float kAddedScore = -1'000;        // of the converter
constexpr float kNoMergeScore = -1'000'000;  // below that of each merge

// Shown to programs that read the replies of a model: the converter makes them user-defined.
constexpr auto kVisibleOfGemma4 = std::to_array<std::string_view>(
    {"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|\"|>"});

using TokenTexts = std::vector<std::string_view>;

bool contains(const TokenTexts& sorted, std::string_view text) { return std::ranges::binary_search(sorted, text); }

Error too_large_id(std::string_view file, uint64_t id, uint64_t count) {
  return {Code::unsupported,
          fmt::format("{} has the id {}, the vocabulary of the model has {} tokens", file, id, count)};
}

Error with_two_ids(std::string_view text) {
  return {Code::corrupt, fmt::format("tokenizer.json: token {} has two ids", quoted(text))};
}

Error with_two_texts(uint64_t id) {
  return {Code::corrupt, fmt::format("tokenizer.json: two tokens have the id {}", id)};
}

Result<void> set_vocab(const TokenizerJson& json, Tokens& tokens) {
  if (json.vocab.empty()) return failure(Code::corrupt, "tokenizer.json: no vocabulary");
  for (const VocabEntry& entry : json.vocab) {
    if (entry.id >= tokens.count()) return failure(too_large_id("tokenizer.json", entry.id, tokens.count()));
    if (tokens.has(entry.id)) return failure(with_two_texts(entry.id));
    tokens.set(entry.id, entry.text, TokenType::normal, kNoMergeScore);
  }
  return {};
}

// An added token stands in the vocabulary too, or nowhere there.
Result<void> check_ids(const TokenizerJson& json, const std::vector<AddedToken>& added, const Tokens& tokens) {
  TokenTexts all;
  TokenTexts elsewhere;
  for (const AddedToken& token : added) {
    all.push_back(token.text);
    if (token.id >= tokens.count() || !tokens.has(token.id) || tokens.text(token.id) != token.text)
      elsewhere.push_back(token.text);
  }
  std::ranges::sort(all);
  if (const auto twice = std::ranges::adjacent_find(all); twice != all.end()) return failure(with_two_ids(*twice));
  if (elsewhere.empty()) return {};
  std::ranges::sort(elsewhere);
  for (const VocabEntry& entry : json.vocab)
    if (contains(elsewhere, entry.text)) return failure(with_two_ids(entry.text));
  return {};
}

// Those of tokenizer.json and, with other texts and ids, those of tokenizer_config.json, by id.
Result<std::vector<AddedToken>> added_tokens(const TokenizerJson& json, const Map* config, Charges& charges) {
  const auto by_id = [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; };
  for (const AddedToken& token : json.added) TRY_VOID(charges.charge(Cost::kept, sizeof token + token.text.size()));
  std::vector<AddedToken> all = json.added;
  std::ranges::stable_sort(all, by_id);
  TokenTexts texts;
  for (const AddedToken& token : all) texts.push_back(token.text);
  std::ranges::sort(texts);
  const size_t own = all.size();
  for (AddedToken& token : TRY(tokens_of_config(config))) {
    const auto same = std::lower_bound(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own), token, by_id);
    const bool is_known = same != all.begin() + static_cast<std::ptrdiff_t>(own) && same->id == token.id;
    if (!is_known && !contains(texts, token.text)) all.push_back(std::move(token));
  }
  std::ranges::stable_sort(all, by_id);
  const auto twice = std::ranges::adjacent_find(all, {}, &AddedToken::id);
  if (twice != all.end()) return failure(with_two_texts(twice->id));
  return all;
}

// The texts that tokenizer_config.json names as special tokens, sorted.
std::vector<std::string> special_texts(const Map* config) {
  constexpr auto kSettings = std::to_array<std::string_view>(
      {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"});
  std::vector<std::string> texts;
  const auto add = [&](const Value* stated) {
    if (auto text = text_of_token(stated)) texts.push_back(std::move(*text));
  };
  if (config == nullptr) return texts;
  for (const std::string_view field : kSettings) add(config->find(field));
  for (const std::string_view field : {"additional_special_tokens", "extra_special_tokens"}) {
    if (const auto* const list = config->find_as<List>(field))
      for (const Value& each : *list) add(&each);
    if (const auto* const map = config->find_as<Map>(field))
      for (const auto& [name, value] : *map) add(&value);
  }
  std::ranges::sort(texts);
  return texts;
}

Result<void> set_added(const AddedToken& token, Tokens& tokens) {
  if (token.is_special || looks_special(token.text)) {
    tokens.set(token.id, TRY(tokens.keep(token.text)), TokenType::control, kAddedScore);
  } else {
    tokens.set(token.id, TRY(tokens.keep(with_spaces(token.text))), TokenType::user_defined, kAddedScore);
  }
  return {};
}

// The vocabulary with the added tokens; special tokens of tokenizer_config.json are of control too.
Result<Tokens> tokens_with_added(const TokenizerJson& json, const Map* config, uint64_t count, Budget& budget) {
  Charges charges(budget, Charges::Pass::together);
  const std::vector<AddedToken> added = TRY(added_tokens(json, config, charges));
  Tokens tokens = TRY(Tokens::of(count, budget));
  TRY_VOID(set_vocab(json, tokens));
  TRY_VOID(check_ids(json, added, tokens));
  const std::vector<std::string> special = special_texts(config);
  if (!special.empty())
    for (const VocabEntry& entry : json.vocab)
      if (std::ranges::binary_search(special, entry.text, std::less<>())) tokens.set_type(entry.id, TokenType::control);
  for (const AddedToken& token : added) {
    if (token.id >= count) return failure(too_large_id("tokenizer.json", token.id, count));
    TRY_VOID(set_added(token, tokens));
  }
  return tokens;
}

// The types that the converter gives to a vocabulary with byte fallback: it looks at tokenizer_config.json alone.
Result<Tokens> fallback_tokens(const TokenizerJson& json, const Map* config, uint64_t count, Budget& budget) {
  Charges charges(budget, Charges::Pass::together);
  const std::vector<AddedToken> added = TRY(added_tokens(json, config, charges));
  Tokens tokens = TRY(Tokens::of(count, budget));
  TRY_VOID(set_vocab(json, tokens));
  TRY_VOID(check_ids(json, added, tokens));
  for (const AddedToken& token : added) {
    if (token.id >= count) return failure(too_large_id("tokenizer.json", token.id, count));
    if (!tokens.has(token.id))
      tokens.set(token.id, TRY(tokens.keep(token.text)), TokenType::user_defined, kNoMergeScore);
  }
  const std::vector<std::string> special = special_texts(config);
  for (uint64_t id = 0; id < count; ++id) {
    if (is_byte_token(tokens.text(id)))
      tokens.set_type(id, TokenType::byte);
    else if (tokens.has(id) && std::ranges::binary_search(special, tokens.text(id), std::less<>()))
      tokens.set_type(id, TokenType::control);
  }
  return tokens;
}

}  // namespace

Result<std::vector<AddedToken>> tokens_of_config(const Map* config) {
  std::vector<AddedToken> out;
  const auto* const stated = config == nullptr ? nullptr : config->find_as<Map>("added_tokens_decoder");
  if (stated == nullptr) return out;
  for (const auto& [key, value] : *stated) {
    AddedToken token;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), token.id);
    const auto* const fields = std::get_if<Map>(&value);
    const auto* const text = fields == nullptr ? nullptr : fields->find_as<std::string>("content");
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || text == nullptr)
      return failure(Code::corrupt, fmt::format("tokenizer_config.json: added token {} has no content", quoted(key)));
    token.text = *text;
    const auto* const is_special = fields->find_as<bool>("special");
    token.is_special = is_special != nullptr && *is_special;
    out.push_back(std::move(token));
  }
  return out;
}

Result<Tokens> byte_level_tokens(const TokenizerJson& json, const Map* config, uint64_t count, Budget& budget) {
  return tokens_with_added(json, config, count, budget);
}

Result<Tokens> wordpiece_tokens(const TokenizerJson& json, const Map* config, uint64_t count, Budget& budget) {
  Tokens tokens = TRY(tokens_with_added(json, config, count, budget));
  for (uint64_t id = 0; id < count; ++id) {
    const TokenType type = tokens.type(id);
    const std::string_view text = tokens.text(id);
    if (!tokens.has(id)) {
      tokens.set(id, TRY(tokens.keep(fmt::format("{}[PAD{}]", kSpaceOfPieces, id))), type);
    } else if (type != TokenType::control) {
      const bool continues = text.starts_with("##");
      tokens.set(id, continues ? text.substr(2) : TRY(tokens.keep(std::string(kSpaceOfPieces).append(text))), type);
    }
  }
  return tokens;
}

Result<Tokens> scored_tokens(const TokenizerJson& json, const Map* config, uint64_t count, Budget& budget) {
  Tokens tokens = TRY(fallback_tokens(json, config, count, budget));
  // A template of Mistral has tokens that only tokenizer.json calls special; the converter would leave them normal, and
  // llama.cpp would not find them in a text.
  for (const AddedToken& token : json.added)
    if (tokens.type(token.id) == TokenType::normal) TRY_VOID(set_added(token, tokens));
  for (uint64_t id = 0; id < count; ++id)
    if (tokens.has(id)) tokens.set_score(id, kNoMergeScore);
  TRY_VOID(set_scores_by_merges(json.merges, tokens, budget));
  return tokens;
}

Result<Tokens> gemma4_tokens(const TokenizerJson& json, const Map* config, uint64_t count, Budget& budget) {
  Tokens tokens = TRY(fallback_tokens(json, config, count, budget));
  for (uint64_t id = 0; id < count; ++id) {
    if (!tokens.has(id)) continue;
    tokens.set_score(id, kAddedScore);
    if (std::ranges::find(kVisibleOfGemma4, tokens.text(id)) != kVisibleOfGemma4.end())
      tokens.set_type(id, TokenType::user_defined);
  }
  return tokens;
}

Result<Tokens> piece_tokens(const Pieces& pieces, uint64_t count, Budget& budget) {
  Tokens tokens = TRY(Tokens::of(count, budget));
  for (uint64_t id = 0; id < std::min<uint64_t>(count, pieces.all.size()); ++id)
    tokens.set(id, pieces.all[id].text, pieces.all[id].type, pieces.all[id].score);
  return tokens;
}

Result<void> replace_pieces(const std::vector<AddedToken>& added, AddedRule rule, Tokens& tokens) {
  for (const AddedToken& token : added) {
    if (token.id >= tokens.count()) continue;
    if (rule == AddedRule::by_look) {
      TRY_VOID(set_added(token, tokens));
    } else {
      const TokenType type = token.is_special ? TokenType::control : TokenType::user_defined;
      tokens.set(token.id, TRY(tokens.keep(token.text)), type, kAddedScore);
    }
  }
  return {};
}

}  // namespace weightfs::mapping
