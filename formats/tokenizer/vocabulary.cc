#include "formats/tokenizer/vocabulary.h"

#include <algorithm>
#include <array>

#include "base/cancel.h"
#include "base/text.h"
#include "formats/mapping/tokenizer/tokens.h"

namespace weightfs::tokenizer {
namespace {

constexpr size_t kBytes = 256;

// The character of each byte in a byte-level vocabulary (bytes_to_unicode of GPT-2): visible ones of Latin-1 are
// themselves, the others follow from U+0100 on.
std::array<std::string, kBytes> make_characters() {
  std::array<std::string, kBytes> characters;
  uint32_t other = kBytes;
  for (uint32_t byte = 0; byte < kBytes; ++byte) {
    const bool is_itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    append_utf8(characters[byte], is_itself ? byte : other++);
  }
  return characters;
}

const std::array<std::string, kBytes>& characters() {
  static const auto kCharacters = make_characters();
  return kCharacters;
}

// The byte of a character of one or two bytes; negative if no byte has it.
int byte_of(std::string_view character) {
  static const auto kByCharacter = [] {
    std::vector<std::pair<std::string_view, int>> all;
    for (size_t byte = 0; byte < kBytes; ++byte) all.emplace_back(characters()[byte], static_cast<int>(byte));
    std::ranges::sort(all);
    return all;
  }();
  const auto found = std::ranges::lower_bound(kByCharacter, character, {}, &std::pair<std::string_view, int>::first);
  return found == kByCharacter.end() || found->first != character ? -1 : found->second;
}

std::optional<std::string> bytes_of(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t size = std::max<size_t>(1, utf8_sequence(text.substr(at)));
    const int byte = byte_of(text.substr(at, size));
    if (byte < 0) return std::nullopt;
    out += static_cast<char>(byte);
    at += size;
  }
  return out;
}

// A text as tokens spell it.
std::string spelled(std::string_view text, Spelling spelling) {
  std::string out;
  for (const char c : text) {
    if (spelling == Spelling::byte_level)
      out += characters()[static_cast<unsigned char>(c)];
    else if (spelling == Spelling::pieces && c == ' ')
      out += mapping::kSpaceOfPieces;
    else
      out += c;
  }
  return out;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Whether `text` has `word`, which is in lower case.
bool has_text(std::string_view text, std::string_view word) {
  const auto is_same = [](char a, char b) { return lower(a) == b; };
  return word.empty() || std::search(text.begin(), text.end(), word.begin(), word.end(), is_same) != text.end();
}

struct Ids {
  uint64_t first, last;
};

// The ids of `id 13` and `id 13-20`.
std::optional<Ids> ids_in(std::string_view query) {
  constexpr std::string_view kWord = "id ";
  query = trimmed(query);
  if (!query.starts_with(kWord)) return std::nullopt;
  query = trimmed(query.substr(kWord.size()));
  const size_t dash = query.find('-');
  const auto first = parse_number<uint64_t>(trimmed(query.substr(0, dash)));
  const auto last = dash == query.npos ? first : parse_number<uint64_t>(trimmed(query.substr(dash + 1)));
  return first && last ? std::optional(Ids{*first, *last}) : std::nullopt;
}

}  // namespace

std::string_view to_text(TokenKind kind) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"", "normal", "unknown", "control", "user-defined", "unused", "byte"});
  return kNames.at(static_cast<size_t>(kind));
}

std::optional<std::string> Vocabulary::readable(const Token& token) const {
  if (!is_spelled() || token.kind == TokenKind::control || token.kind == TokenKind::user_defined) return std::nullopt;
  std::optional<std::string> text =
      spelling_ == Spelling::pieces ? mapping::with_spaces(token.text) : bytes_of(token.text);
  return !text || *text == token.text || !is_utf8(*text) ? std::nullopt : text;
}

void Vocabulary::add(const Token& token) {
  tokens_.push_back(token);
  tokens_.back().text = texts_.add(token.text);
}

bool Vocabulary::mark(const Token& special) {
  constexpr std::ptrdiff_t kMost = 16;  // tokens of one id that are looked at
  const auto begin = std::ranges::lower_bound(tokens_, special.id, {}, &Token::id);
  const auto end = begin + std::min(kMost, std::ranges::upper_bound(tokens_, special.id, {}, &Token::id) - begin);
  const auto found = std::find_if(begin, end, [&](const Token& token) { return token.text == special.text; });
  if (found != end) found->kind = special.kind;
  return found != end;
}

void Vocabulary::add_special(const std::vector<Token>& special) {
  sort();
  std::vector<const Token*> others;
  for (const Token& token : special)
    if (!mark(token)) others.push_back(&token);
  for (const Token* const token : others) add(*token);
  sort();
}

void Vocabulary::sort() { std::ranges::stable_sort(tokens_, {}, &Token::id); }

Result<std::vector<uint32_t>> Vocabulary::find(const TokenQuery& query) const {
  constexpr size_t kPart = 10'000;
  const auto ids = ids_in(query.text);
  const auto number = parse_number<uint64_t>(trimmed(query.text));
  const std::string word = lower_case(query.text);
  const std::string other = is_spelled() ? lower_case(spelled(query.text, spelling_)) : word;
  std::vector<uint32_t> first, found;
  for (uint32_t place = 0; place < tokens_.size(); ++place) {
    if (place % kPart == 0 && is_cancelled()) return cancelled();
    const Token& token = tokens_[place];
    if (query.kind && token.kind != *query.kind) continue;
    if (ids) {
      if (token.id >= ids->first && token.id <= ids->last) found.push_back(place);
    } else if (number == token.id) {
      first.push_back(place);
    } else if (has_text(token.text, word) || (other != word && has_text(token.text, other))) {
      found.push_back(place);
    }
  }
  found.insert(found.begin(), first.begin(), first.end());
  return found;
}

}  // namespace weightfs::tokenizer
