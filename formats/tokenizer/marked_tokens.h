// The special tokens in a chat template: what a person looks for in it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "formats/tokenizer/vocabulary.h"

namespace weightfs::tokenizer {

/// A part of a text: a special token with its id, or what is between two.
struct MarkedPart {
  std::string_view text;
  std::optional<uint32_t> id;
};

/// Divides a text at the tokens of control and the user-defined ones, the longest first; those that are only white
/// space do not count. The parts are the whole text. If it has unusually many similar tokens, the rest is one
/// part.
std::vector<MarkedPart> marked_tokens(std::string_view text, const Vocabulary& vocabulary);

}  // namespace weightfs::tokenizer
