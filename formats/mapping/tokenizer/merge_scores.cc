#include "formats/mapping/tokenizer/merge_scores.h"

#include <string>
#include <string_view>
#include <vector>

#include "base/values/little_endian.h"
#include "formats/mapping/token_index.h"

namespace weightfs::mapping {

Result<void> set_scores_by_merges(const Merges& merges, Tokens& tokens, Budget& budget) {
  Charges charges(budget);
  TRY_VOID(charges.charge(Cost::kept, bytes_of_token_index(tokens.count()) + tokens.count() / 8));
  TRY_VOID(charges.charge(Cost::input, merges.encoded.size()));
  // An unused token has no text, and no merge makes one without.
  const TokenIndex index(tokens.count(), [&](uint64_t id) { return tokens.text(id); });
  std::vector<bool> has_score(static_cast<size_t>(tokens.count()));
  std::string text;
  size_t at = 0;
  for (uint64_t i = 0; i < merges.count; ++i) {
    const std::string_view rest = std::string_view(merges.encoded).substr(at);
    const uint64_t size = little_endian(rest.substr(0, sizeof size));
    const std::string_view merge = rest.substr(sizeof size, size);
    at += sizeof size + size;
    const size_t space = merge.find(' ');
    text.assign(merge, 0, space).append(merge, space + 1);
    const uint32_t id = index.find(text);
    if (id == kNoToken || has_score[id]) continue;
    has_score[id] = true;
    tokens.set_score(id, static_cast<float>(-static_cast<int64_t>(i)));  // 0 for the first, not -0
  }
  return {};
}

}  // namespace weightfs::mapping
