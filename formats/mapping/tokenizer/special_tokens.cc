#include "formats/mapping/tokenizer/special_tokens.h"

#include <algorithm>
#include <array>

#include "formats/mapping/tokenizer/post_processor.h"

namespace weightfs::mapping {
namespace {

struct KeyOfType {
  std::string_view type;
  std::string_view key;
};

// "cls" has none. The key of "sep" is misspelled in llama.cpp.
constexpr auto kIdKeys = std::to_array<KeyOfType>({
    {"bos", "tokenizer.ggml.bos_token_id"},
    {"eos", "tokenizer.ggml.eos_token_id"},
    {"eot", "tokenizer.ggml.eot_token_id"},
    {"eom", "tokenizer.ggml.eom_token_id"},
    {"unk", "tokenizer.ggml.unknown_token_id"},
    {"sep", "tokenizer.ggml.seperator_token_id"},
    {"pad", "tokenizer.ggml.padding_token_id"},
    {"mask", "tokenizer.ggml.mask_token_id"},
});

constexpr auto kAddedKeys = std::to_array<KeyOfType>({
    {"bos", "tokenizer.ggml.add_bos_token"},
    {"eos", "tokenizer.ggml.add_eos_token"},
    {"sep", "tokenizer.ggml.add_sep_token"},
});

std::string_view key_of(std::string_view type, auto& keys) {
  const auto* const row = std::ranges::find(keys, type, &KeyOfType::type);
  return row == keys.end() ? std::string_view() : row->key;
}

std::optional<uint64_t> id_of(const Value& value) {
  if (const auto* const n = std::get_if<int64_t>(&value); n != nullptr && *n >= 0) return static_cast<uint64_t>(*n);
  if (const auto* const n = std::get_if<uint64_t>(&value)) return *n;
  return std::nullopt;
}

bool is_null(const Value* value) { return value == nullptr || std::holds_alternative<std::nullptr_t>(*value); }

std::optional<uint64_t> id_in_added(const TokenizerJson* json, std::string_view text) {
  if (json == nullptr) return std::nullopt;
  const auto token = std::ranges::find(json->added, text, &AddedToken::text);
  return token == json->added.end() ? std::nullopt : std::optional(token->id);
}

std::string field(std::string_view before, std::string_view type, std::string_view after) {
  return std::string(before).append(type).append(after);
}

void add_fields_of_normalizer(const Map& normalizer, std::optional<bool>& lowercase, std::optional<bool>& accents) {
  const std::string_view type = text_in(normalizer, "type");
  if (type == "Lowercase") lowercase = true;
  if (type == "StripAccents") accents = true;
  if (type == "BertNormalizer") {
    const auto take = [&](std::string_view name, std::optional<bool>& to) {
      const Value* const stated = normalizer.find(name);
      if (stated == nullptr) return;
      const auto* const flag = std::get_if<bool>(stated);
      to = flag == nullptr ? std::nullopt : std::optional(*flag);
    };
    take("lowercase", lowercase);
    take("strip_accents", accents);
  }
  if (type != "Sequence") return;
  if (const auto* const all = normalizer.find_as<List>("normalizers"))
    for (const Value& each : *all)
      if (const auto* const map = std::get_if<Map>(&each)) add_fields_of_normalizer(*map, lowercase, accents);
}

}  // namespace

std::optional<std::string> text_of_token(const Value* stated) {
  const StatedToken token = StatedToken::of(stated);
  return token.text.empty() ? std::nullopt : std::optional(token.text);
}

SpecialTokens::SpecialTokens(const TokenizerFiles& files, std::optional<uint64_t> count) : count_(count) {
  PostProcessing processing{.has_config = files.tokenizer_config != nullptr};
  if (files.tokenizer_config != nullptr)
    for (const std::string& type : types_)
      if (const Value* const stated = files.tokenizer_config->find(field("", type, "_token")))
        processing.set_token(type, StatedToken::of(stated));
  if (files.json != nullptr) apply_post_processor(files.json->post_processor, processing);
  types_.insert(types_.end(), processing.more_types.begin(), processing.more_types.end());
  if (files.tokenizer_config != nullptr) {
    for (const std::string& type : types_) {
      if (const auto* const flag = files.tokenizer_config->find_as<bool>(field("add_", type, "_token")))
        processing.set_added(type, *flag);
      const StatedToken* const token = processing.token(type);
      const bool is_named = token != nullptr && !token->text.empty();
      const auto id = is_named ? id_in_added(files.json, token->text) : std::nullopt;
      if (id) set(type, *id);
    }
  }
  added_ = std::move(processing.added);
  set_by_config(*files.config);
}

void SpecialTokens::set_by_config(const Map& config) {
  const auto* const inner = config.find_as<Map>("text_config");
  for (const std::string& type : types_) {
    const std::string name = field("", type, "_token_id");
    const Value* id = config.find(name);
    if (is_null(id) && inner != nullptr) id = inner->find(name);
    if (const auto number = is_null(id) ? std::nullopt : id_of(*id)) set(type, *number);
  }
}

void SpecialTokens::set(std::string_view type, uint64_t id) {
  if ((count_ && id >= *count_) || id > UINT32_MAX) return;
  if (std::ranges::find(ids_, type, &std::pair<std::string, uint64_t>::first) == ids_.end())
    ids_.emplace_back(type, id);
}

void SpecialTokens::add_to(Keys& keys) const {
  for (const auto& [type, id] : ids_)
    if (const std::string_view key = key_of(type, kIdKeys); !key.empty()) keys.u32(key, id);
  for (const auto& [type, is_added] : added_)
    if (const std::string_view key = key_of(type, kAddedKeys); !key.empty()) keys.flag(key, is_added);
}

void add_normalizer(const Value& normalizer, Keys& keys) {
  std::optional<bool> lowercase;
  std::optional<bool> accents;
  if (const auto* const map = std::get_if<Map>(&normalizer)) add_fields_of_normalizer(*map, lowercase, accents);
  if (lowercase) keys.flag("tokenizer.ggml.normalizer.lowercase", *lowercase);
  if (accents) keys.flag("tokenizer.ggml.normalizer.strip_accents", *accents);
}

}  // namespace weightfs::mapping
