#include "formats/mapping/tokenizer/tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/mapping/token_index.h"

namespace weightfs::mapping {
namespace {

constexpr std::string_view kFullWidthBar = "\xEF\xBD\x9C";  // U+FF5C

constexpr size_t kHeadOfArray = 16;  // bytes that Keys puts before the elements

std::string text_of_unused(uint64_t id) { return fmt::format("[PAD{}]", id); }

bool is_between(std::string_view text, std::string_view begin, std::string_view end) {
  return text.starts_with(begin) && text.ends_with(end);
}

bool is_hex_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f'); }

}  // namespace

Result<Tokens> Tokens::of(uint64_t count, Budget& budget) {
  Tokens tokens(budget);
  TRY_VOID(tokens.charges_.charge(Cost::kept, count * sizeof(Token)));
  tokens.all_.resize(static_cast<size_t>(count));
  return tokens;
}

void Tokens::set(uint64_t id, std::string_view text, TokenType type, float score) {
  all_[id] = {.text = text, .score = score, .type = type, .is_set = true};
}

Result<std::string_view> Tokens::keep(std::string_view text) {
  TRY_VOID(charges_.charge(Cost::kept, text.size()));
  return texts_.add(text);
}

Result<void> Tokens::check_texts() const {
  Charges charges(*budget_);
  TRY_VOID(charges.charge(Cost::kept, bytes_of_token_index(count())));
  const TokenIndex index(count(), [this](uint64_t id) { return text(id); });
  for (uint64_t id = 0; id < count(); ++id) {
    if (has(id) && text(id).empty()) continue;
    const uint32_t last = has(id) ? index.find(text(id)) : index.find(text_of_unused(id));
    if (last == kNoToken || last == id) continue;
    return failure(Code::corrupt, fmt::format("tokens {} and {} are both {}", id, last, quoted(text(last))));
  }
  return {};
}

Result<void> Tokens::add_texts(Keys& keys, Charges& written) const {
  TRY_VOID(check_texts());
  uint64_t size = 0;
  for (uint64_t id = 0; id < count(); ++id)
    size += sizeof(uint64_t) + (has(id) ? text(id).size() : text_of_unused(id).size());
  TRY_VOID(written.charge(Cost::kept, size));
  std::string encoded;
  encoded.reserve(static_cast<size_t>(size) + kHeadOfArray);
  for (uint64_t id = 0; id < count(); ++id) append_gguf_text(encoded, has(id) ? text(id) : text_of_unused(id));
  keys.array("tokenizer.ggml.tokens", gguf::ValueType::string, count(), std::move(encoded));
  return {};
}

Result<void> Tokens::add_scores(Keys& keys, Charges& written) const {
  TRY_VOID(written.charge(Cost::kept, count() * sizeof(float)));
  std::string encoded;
  encoded.reserve(all_.size() * sizeof(float) + kHeadOfArray);
  for (const Token& token : all_) append_little_endian(encoded, std::bit_cast<uint32_t>(token.score), sizeof(uint32_t));
  keys.array("tokenizer.ggml.scores", gguf::ValueType::float32, count(), std::move(encoded));
  return {};
}

Result<void> Tokens::add_types(Keys& keys, Charges& written) const {
  TRY_VOID(written.charge(Cost::kept, count() * sizeof(int32_t)));
  std::string encoded;
  encoded.reserve(all_.size() * sizeof(int32_t) + kHeadOfArray);
  for (const Token& token : all_) append_little_endian(encoded, static_cast<uint32_t>(token.type), sizeof(uint32_t));
  keys.array("tokenizer.ggml.token_type", gguf::ValueType::int32, count(), std::move(encoded));
  return {};
}

bool looks_special(std::string_view text) {
  constexpr auto kTexts = std::to_array<std::string_view>({"<pad>", "<mask>", "<2mass>", "[@BOS@]"});
  static const std::string kWideBegin = "<" + std::string(kFullWidthBar);
  static const std::string kWideEnd = std::string(kFullWidthBar) + ">";
  return std::ranges::find(kTexts, text) != kTexts.end() || is_between(text, "<|", "|>") ||
         is_between(text, kWideBegin, kWideEnd) || is_between(text, "<unused", ">");
}

std::string with_spaces(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool is_space = text.substr(at).starts_with(kSpaceOfPieces);
    out += is_space ? ' ' : text[at];
    at += is_space ? kSpaceOfPieces.size() : 1;
  }
  return out;
}

bool is_byte_token(std::string_view text) {
  return text.size() == 6 && is_between(text, "<0x", ">") && is_hex_digit(text[3]) && is_hex_digit(text[4]);
}

}  // namespace weightfs::mapping
