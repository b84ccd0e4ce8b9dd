#include "formats/tokenizer/marked_tokens.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace weightfs::tokenizer {
namespace {

constexpr size_t kMaxToken = 256;          // bytes
constexpr uint64_t kMaxSteps = 5'000'000;  // comparisons of a character
constexpr size_t kMaxParts = 100'000;

// The special tokens, sorted by their texts.
class SpecialTokens {
 public:
  explicit SpecialTokens(const Vocabulary& vocabulary) {
    for (const Token& token : vocabulary.tokens()) {
      const bool is_special = token.kind == TokenKind::control || token.kind == TokenKind::user_defined;
      if (!is_special || token.text.size() > kMaxToken || trimmed(token.text).empty()) continue;
      all_.push_back(token);
      begins_[static_cast<unsigned char>(token.text.front())] = true;
    }
    std::ranges::sort(all_, {}, &Token::text);
  }

  bool may_begin(char c) const { return begins_[static_cast<unsigned char>(c)]; }

  // The longest one that `text` begins with; null if there is none.
  const Token* longest(std::string_view text, uint64_t& steps) const {
    const Token* found = nullptr;
    auto first = all_.begin(), last = all_.end();
    for (size_t depth = 0; depth < std::min(text.size(), kMaxToken) && first != last; ++depth) {
      const auto at = [depth](const Token& token) {
        return depth < token.text.size() ? static_cast<unsigned char>(token.text[depth]) : -1;
      };
      const int wanted = static_cast<unsigned char>(text[depth]);
      first = std::ranges::lower_bound(first, last, wanted, {}, at);
      last = std::ranges::upper_bound(first, last, wanted, {}, at);
      ++steps;
      if (first != last && first->text.size() == depth + 1) found = &*first;
    }
    return found;
  }

 private:
  std::vector<Token> all_;
  std::array<bool, 256> begins_{};
};

}  // namespace

std::vector<MarkedPart> marked_tokens(std::string_view text, const Vocabulary& vocabulary) {
  const SpecialTokens special(vocabulary);
  std::vector<MarkedPart> parts;
  size_t begin = 0;  // of what is between two tokens
  uint64_t steps = 0;
  for (size_t at = 0; at < text.size() && steps < kMaxSteps && parts.size() < kMaxParts;) {
    const Token* const token = special.may_begin(text[at]) ? special.longest(text.substr(at), steps) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    if (at > begin) parts.push_back({text.substr(begin, at - begin), std::nullopt});
    parts.push_back({text.substr(at, token->text.size()), token->id});
    begin = at += token->text.size();
  }
  if (begin < text.size()) parts.push_back({text.substr(begin), std::nullopt});
  return parts;
}

}  // namespace weightfs::tokenizer
