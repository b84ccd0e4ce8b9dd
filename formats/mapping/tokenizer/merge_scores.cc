#include "formats/mapping/tokenizer/merge_scores.h"

#include <bit>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/little_endian.h"
#include "formats/summary/name_tree.h"

namespace weightfs::mapping {
namespace {

constexpr uint32_t kNoToken = std::numeric_limits<uint32_t>::max();

// Finds tokens by their texts. The hash is keyed, so that no file can make the lookups slow.
class TokenIndex {
 public:
  static size_t slots_for(const Tokens& tokens) { return std::bit_ceil(2 * static_cast<size_t>(tokens.count()) + 1); }

  explicit TokenIndex(const Tokens& tokens) : tokens_(tokens), slots_(slots_for(tokens), kNoToken) {
    for (uint64_t id = 0; id < tokens.count(); ++id)
      if (tokens.has(id)) slots_[slot_of(tokens.text(id))] = static_cast<uint32_t>(id);
  }

  uint32_t find(std::string_view text) const { return slots_[slot_of(text)]; }

 private:
  // The slot of the token with this text, or a free one.
  size_t slot_of(std::string_view text) const {
    size_t slot = summary::keyed_hash(0, text) & (slots_.size() - 1);
    while (slots_[slot] != kNoToken && tokens_.text(slots_[slot]) != text) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  const Tokens& tokens_;
  std::vector<uint32_t> slots_;
};

}  // namespace

Result<void> set_scores_by_merges(const Merges& merges, Tokens& tokens, Budget& budget) {
  Charges charges(budget);
  TRY_VOID(charges.charge(Cost::kept, TokenIndex::slots_for(tokens) * sizeof(uint32_t) + tokens.count() / 8));
  TRY_VOID(charges.charge(Cost::input, merges.encoded.size()));
  const TokenIndex index(tokens);
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
