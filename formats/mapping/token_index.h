// Finds tokens by their texts.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/summary/name_tree.h"

namespace weightfs::mapping {

inline constexpr uint32_t kNoToken = std::numeric_limits<uint32_t>::max();

inline size_t slots_of_token_index(uint64_t count) { return std::bit_ceil(2 * static_cast<size_t>(count) + 1); }

/// The memory of an index of `count` tokens.
inline uint64_t bytes_of_token_index(uint64_t count) { return slots_of_token_index(count) * sizeof(uint32_t); }

/// `TextOf` returns the text of an id, which lives as long as the index; an empty text is not found. The hash is keyed,
/// so that no file can make the lookups slow.
template <class TextOf>
class TokenIndex {
 public:
  /// The last one of equal texts is found.
  TokenIndex(uint64_t count, TextOf text_of)
      : text_of_(std::move(text_of)), slots_(slots_of_token_index(count), kNoToken) {
    for (uint64_t id = 0; id < count; ++id)
      if (!text_of_(id).empty()) slots_[slot_of(text_of_(id))] = static_cast<uint32_t>(id);
  }

  /// The id, or kNoToken.
  uint32_t find(std::string_view text) const { return slots_[slot_of(text)]; }

 private:
  // The slot of the token with this text, or a free one.
  size_t slot_of(std::string_view text) const {
    size_t slot = summary::keyed_hash(0, text) & (slots_.size() - 1);
    while (slots_[slot] != kNoToken && text_of_(slots_[slot]) != text) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  TextOf text_of_;
  std::vector<uint32_t> slots_;
};

}  // namespace weightfs::mapping
