#include "formats/mapping/tokenizer/merge_scores.h"

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/mapping/token_index.h"

namespace weightfs::mapping {
namespace {

constexpr std::string_view kSpaceOfMerge = "\xC4\xA0";  // what a space of a token is in a merge

std::string with_spaces_of_tokens(std::string_view merged) {
  std::string text;
  for (size_t at = 0; at < merged.size();) {
    const bool is_space = merged.substr(at).starts_with(kSpaceOfMerge);
    text += is_space ? ' ' : merged[at];
    at += is_space ? kSpaceOfMerge.size() : 1;
  }
  return text;
}

// Calls `take(i, index, text)` for each merge with what it makes, and with the index of all tokens; ends when it fails.
template <class Take>
Result<void> for_each_merge(const Merges& merges, const Tokens& tokens, Budget& budget, const Take& take) {
  Charges charges(budget);
  TRY_VOID(charges.charge(Cost::kept, bytes_of_token_index(tokens.count()) + tokens.count() / 8));
  TRY_VOID(charges.charge(Cost::input, merges.encoded.size()));
  // An unused token has no text, and no merge makes one without.
  const TokenIndex index(tokens.count(), [&](uint64_t id) { return tokens.text(id); });
  std::string text;
  size_t at = 0;
  for (uint64_t i = 0; i < merges.count; ++i) {
    const std::string_view rest = std::string_view(merges.encoded).substr(at);
    const uint64_t size = little_endian(rest.substr(0, sizeof size));
    const std::string_view merge = rest.substr(sizeof size, size);
    at += sizeof size + size;
    const size_t space = merge.find(' ');
    text.assign(merge, 0, space).append(merge, space + 1);
    TRY_VOID(take(i, index, text));
  }
  return {};
}

}  // namespace

Result<void> set_scores_by_merges(const Merges& merges, Tokens& tokens, Budget& budget) {
  std::vector<bool> has_score(static_cast<size_t>(tokens.count()));
  return for_each_merge(
      merges, tokens, budget, [&](uint64_t i, const auto& index, std::string_view text) -> Result<void> {
        const uint32_t id = index.find(text);
        if (id == kNoToken || has_score[id]) return {};
        has_score[id] = true;
        tokens.set_score(id, static_cast<float>(-static_cast<int64_t>(i)));  // 0 for the first, not -0
        return {};
      });
}

Result<void> check_merges(const Merges& merges, const Tokens& tokens, Budget& budget) {
  const auto check = [](uint64_t i, const auto& index, std::string_view text) -> Result<void> {
    if (index.find(text) != kNoToken || index.find(with_spaces_of_tokens(text)) != kNoToken) return {};
    return failure(Code::corrupt,
                   fmt::format("tokenizer.json: merge {} makes {}, which is not a token", i, quoted(text)));
  };
  return for_each_merge(merges, tokens, budget, check);
}

}  // namespace weightfs::mapping
