#include "formats/mapping/hub/stored_tokens.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/common/cursor.h"
#include "formats/gguf/stored_keys.h"
#include "formats/mapping/tokenizer/tokenizer_json.h"
#include "formats/mapping/tokenizer/tokens.h"

namespace weightfs::mapping {
namespace {

constexpr uint64_t kMaxKeyText = uint64_t{4} << 20;

// The cursor behind the head of a list; the number of its elements is that of the stored value.
Result<Cursor> elements_of(const StoredKey& key) {
  constexpr uint64_t kHead = sizeof(uint32_t) + sizeof(uint64_t);
  Cursor cursor(key.bytes, 0, key.bytes.size(), key.order);
  TRY_VOID(cursor.skip(kHead));
  return cursor;
}

Result<double> number_at(Cursor& cursor, gguf::ValueType type) {
  if (type == gguf::ValueType::float32) return TRY(cursor.number<float>());
  if (type == gguf::ValueType::int32) return TRY(cursor.number<int32_t>());
  return TRY(cursor.number<uint32_t>());
}

}  // namespace

Result<StoredTokenizer> StoredTokenizer::find(const GgufKeys& keys, Budget& budget) {
  StoredTokenizer out;
  const auto add = [&](const std::string& key, const Slice& entries, const gguf::StoredValue& value) -> Result<void> {
    if (!key.starts_with("tokenizer.")) return {};
    TRY_VOID(budget.charge(Cost::step));
    Slice stored = TRY(slice(entries.whole(), entries.offset() + value.begin, value.end - value.begin));
    out.keys_.emplace_back(key, StoredKey{std::move(stored), value, keys.order});
    return {};
  };
  TRY_VOID(gguf::for_each_key(keys, budget, add));
  return out;
}

const StoredKey* StoredTokenizer::list(std::string_view key, gguf::ValueType element) const {
  const auto found = std::ranges::find(keys_, key, &std::pair<std::string, StoredKey>::first);
  if (found == keys_.end()) return nullptr;
  const gguf::StoredValue& value = found->second.value;
  return value.type == gguf::ValueType::array && value.element_type == element ? &found->second : nullptr;
}

Result<std::string> StoredTokenizer::text(std::string_view key) const {
  const auto found = std::ranges::find(keys_, key, &std::pair<std::string, StoredKey>::first);
  if (found == keys_.end() || found->second.value.type != gguf::ValueType::string) return std::string();
  const StoredKey& stored = found->second;
  Cursor cursor(stored.bytes, 0, stored.bytes.size(), stored.order);
  const uint64_t size = TRY(cursor.number<uint64_t>());
  if (size > kMaxKeyText) return failure(Code::unsupported, fmt::format("{} has {} bytes", key, size));
  return cursor.text(size);
}

Result<void> StoredTokenizer::each_text(std::string_view key,
                                        const std::function<Result<void>(std::string_view)>& use) const {
  const StoredKey* const stored = list(key, gguf::ValueType::string);
  if (stored == nullptr) return {};
  Cursor cursor = TRY(elements_of(*stored));
  std::string text;
  for (uint64_t i = 0; i < stored->value.elements; ++i) {
    const uint64_t size = TRY(cursor.number<uint64_t>());
    TRY_VOID(cursor.read_text(size, text));
    TRY_VOID(use(text));
  }
  return {};
}

Result<std::vector<double>> StoredTokenizer::numbers(std::string_view key) const {
  std::vector<double> out;
  for (const auto type : {gguf::ValueType::int32, gguf::ValueType::uint32, gguf::ValueType::float32}) {
    const StoredKey* const stored = list(key, type);
    if (stored == nullptr) continue;
    Cursor cursor = TRY(elements_of(*stored));
    if (stored->value.elements > kMaxTokens)
      return failure(Code::unsupported, fmt::format("{} has {} elements", key, stored->value.elements));
    out.reserve(static_cast<size_t>(stored->value.elements));
    for (uint64_t i = 0; i < stored->value.elements; ++i) out.push_back(TRY(number_at(cursor, type)));
  }
  return out;
}

Result<StoredTokens> read_tokens(const StoredTokenizer& stored, Budget& budget) {
  StoredTokens out(budget);
  constexpr uint64_t kMemory = sizeof(std::string_view) + sizeof(int32_t) + sizeof(float) + 2 * sizeof(double);
  const auto add = [&out](std::string_view text) -> Result<void> {
    if (out.texts.size() == kMaxTokens)
      return failure(Code::unsupported, fmt::format("more than {} tokens", kMaxTokens));
    TRY_VOID(out.charges.charge(Cost::kept, kMemory + text.size()));
    out.texts.push_back(out.arena.add(text));
    return {};
  };
  TRY_VOID(stored.each_text("tokenizer.ggml.tokens", add));
  if (out.texts.empty()) return failure(Code::unsupported, "tokenizer.ggml.tokens is missing or empty");
  for (const double type : TRY(stored.numbers("tokenizer.ggml.token_type")))
    out.types.push_back(static_cast<int32_t>(static_cast<int64_t>(type)));
  if (out.types.empty()) out.types.assign(out.texts.size(), static_cast<int32_t>(TokenType::normal));
  for (const double score : TRY(stored.numbers("tokenizer.ggml.scores")))
    out.scores.push_back(static_cast<float>(score));
  const bool has_other_scores = !out.scores.empty() && out.scores.size() != out.texts.size();
  if (out.types.size() != out.texts.size() || has_other_scores)
    return failure(Code::corrupt, fmt::format("{} tokens with {} types and {} scores", out.texts.size(),
                                              out.types.size(), out.scores.size()));
  return out;
}

}  // namespace weightfs::mapping
