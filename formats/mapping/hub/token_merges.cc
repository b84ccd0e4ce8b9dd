#include "formats/mapping/hub/token_merges.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "formats/mapping/token_index.h"
#include "formats/mapping/tokenizer/tokens.h"

namespace weightfs::mapping {
namespace {

bool is_of_type(const StoredTokens& tokens, uint32_t id, TokenType type) {
  return tokens.types[id] == static_cast<int32_t>(type);
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

Result<void> add_merge(TokenMerges& merges, uint32_t left, uint32_t right) {
  TRY_VOID(merges.charges.charge(Cost::kept, sizeof(merges.pairs.front())));
  merges.pairs.emplace_back(left, right);
  return {};
}

// The pieces that others are merged to, the highest scores first, of equal ones in the order of the vocabulary, which
// is that of training.
std::vector<uint32_t> pieces_by_score(const StoredTokens& tokens) {
  std::vector<uint32_t> order;
  for (uint32_t id = 0; id < tokens.texts.size(); ++id)
    if (is_of_type(tokens, id, TokenType::normal) && tokens.texts[id].size() > 1) order.push_back(id);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return tokens.scores[a] > tokens.scores[b]; });
  return order;
}

}  // namespace

Result<TokenMerges> stored_merges(const StoredTokenizer& stored, const StoredTokens& tokens, Budget& budget) {
  Charges charges(budget);
  TRY_VOID(charges.charge(Cost::kept, bytes_of_token_index(tokens.texts.size())));
  const TokenIndex index(tokens.texts.size(), [&](uint64_t id) { return tokens.texts[id]; });
  TokenMerges out(budget);
  TRY_VOID(out.charges.charge(Cost::kept, tokens.texts.size() / 8));
  out.makes.resize(tokens.texts.size());
  std::string joined;
  const auto add = [&](std::string_view merge) -> Result<void> {
    const size_t space = merge.find(' ');
    if (space == merge.npos) return {};
    const uint32_t left = index.find(merge.substr(0, space));
    const uint32_t right = index.find(merge.substr(space + 1));
    joined.assign(merge, 0, space).append(merge, space + 1);
    const uint32_t made = index.find(joined);
    if (left == kNoToken || right == kNoToken || made == kNoToken) return {};
    out.makes[made] = true;
    return add_merge(out, left, right);
  };
  TRY_VOID(stored.each_text("tokenizer.ggml.merges", add));
  return out;
}

Result<TokenMerges> merges_by_scores(const StoredTokens& tokens, Budget& budget) {
  Charges charges(budget);
  TRY_VOID(charges.charge(Cost::kept,
                          bytes_of_token_index(tokens.texts.size()) + 2 * sizeof(uint32_t) * tokens.texts.size()));
  TokenMerges out(budget);
  if (tokens.scores.empty()) return out;
  const auto is_piece = [&](uint32_t id) {
    return id != kNoToken &&
           (is_of_type(tokens, id, TokenType::normal) || is_of_type(tokens, id, TokenType::user_defined));
  };
  const TokenIndex index(tokens.texts.size(), [&](uint64_t id) { return tokens.texts[id]; });
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const uint32_t id : pieces_by_score(tokens)) {
    const std::string_view text = tokens.texts[id];
    TRY_VOID(budget.charge(Cost::input, uint64_t{text.size()} * text.size()));
    pairs.clear();
    for (size_t at = 1; at < text.size(); ++at) {
      if (!begins_character(text[at])) continue;
      const uint32_t left = index.find(text.substr(0, at));
      if (!is_piece(left)) continue;
      const uint32_t right = index.find(text.substr(at));
      if (is_piece(right)) pairs.emplace_back(left, right);
    }
    std::ranges::sort(pairs);
    for (const auto& [left, right] : pairs) TRY_VOID(add_merge(out, left, right));
  }
  return out;
}

void define_tokens_without_merges(const TokenMerges& merges, StoredTokens& tokens) {
  for (uint32_t id = 0; id < tokens.texts.size(); ++id) {
    const auto characters = std::ranges::count_if(tokens.texts[id], begins_character);
    if (characters > 1 && is_of_type(tokens, id, TokenType::normal) && !merges.makes[id])
      tokens.types[id] = static_cast<int32_t>(TokenType::user_defined);
  }
}

}  // namespace weightfs::mapping
