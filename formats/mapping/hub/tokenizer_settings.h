// What the keys of a GGUF, but for its lists, say of its tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/model.h"

namespace weightfs::mapping {

/// The kinds of tokenizers that a tokenizer.json is made of (tokenizer.ggml.model).
enum class TokenizerKind : uint8_t {
  byte_level,  ///< "gpt2": merges of bytes
  pieces,      ///< "llama": of SentencePiece, with scores in place of merges
  gemma4,      ///< pieces with merges
  word_piece,  ///< "bert"
};

/// The ids of special tokens; nothing if there is no such token.
struct SpecialIds {
  std::optional<uint64_t> bos = std::nullopt;
  std::optional<uint64_t> eos = std::nullopt;
  std::optional<uint64_t> unknown = std::nullopt;
  std::optional<uint64_t> separator = std::nullopt;
  std::optional<uint64_t> padding = std::nullopt;
  std::optional<uint64_t> mask = std::nullopt;
};

struct TokenizerSettings {
  TokenizerKind kind = TokenizerKind::byte_level;
  std::string_view steps = {};  ///< of the pre-tokenizer, as steps_of_pre_tokenizer(); of byte_level
  bool ignores_merges = false;
  bool composes = false;    ///< texts are in normal form C
  bool adds_bos = false;    ///< in front of each text
  bool adds_eos = false;    ///< behind it; word_piece adds its separator
  bool states_bos = false;  ///< a key says so, not the kind
  bool states_eos = false;  ///<
  bool prepends_space = false;
  bool is_lower_case = true;  ///< of word_piece
  std::optional<bool> strips_accents = std::nullopt;
  SpecialIds ids = {};
};

/// Fails with unsupported, in a sentence, if no tokenizer.json can be made by these keys: a kind or a pre-tokenizer
/// that is not known, or a list is missing.
Result<TokenizerSettings> tokenizer_settings(const Model& gguf);

}  // namespace weightfs::mapping
