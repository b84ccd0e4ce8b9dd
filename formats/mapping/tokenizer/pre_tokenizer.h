// The pre-tokenizer of a tokenizer.json, which splits a text before its parts are merged, by the name that llama.cpp
// has for it. llama.cpp has each as a regular expression of its own, so only the ones that it has can be named.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/values/value.h"
#include "formats/mapping/tokenizer/tokenizer_json.h"

namespace weightfs::mapping {

/// What a name depends on besides the pre-tokenizer.
struct NamedBy {
  bool is_glm = false;         ///< llama.cpp has a name for these, with no default for bos
  bool cleans_spaces = false;  ///< by clean_up_tokenization_spaces of tokenizer_config.json
};

/// A pre-tokenizer of byte-level BPE.
struct PreTokenizer {
  std::string_view family;  ///< the first name in the table of those with the same expression
  std::string_view name;    ///< for tokenizer.ggml.pre: "qwen2"
};

/// Fails with unsupported if llama.cpp has no such pre-tokenizer, or does not apply the normalizer.
Result<PreTokenizer> find_pre_tokenizer(const TokenizerJson& json, const NamedBy& by);

/// The reverse: the steps of a pre-tokenizer by its name in a GGUF, a line each: a regular expression that isolates its
/// matches, `<digits>` for single digits, `<bytes>` for ByteLevel without an expression of its own, `<gpt2>` for
/// ByteLevel with it. Empty for a name whose tokenizer.json is not known here.
std::string_view steps_of_pre_tokenizer(std::string_view name);

/// Whether a part of a text that is a token is not made by merges in the tokenizers of this name.
bool ignores_merges(std::string_view pre_tokenizer);

/// Whether llama.cpp adds bos to each text unless tokenizer.ggml.add_bos_token denies it.
bool adds_bos_by_default(std::string_view pre_tokenizer);

/// Whether texts are split into bytes, each shown as a character: not so in a BPE vocabulary of SentencePiece.
bool is_byte_level(const TokenizerJson& json);

/// Whether a BPE vocabulary of SentencePiece has a space put in front of a text. Fails with unsupported if a normalizer
/// or pre-tokenizer does something else than what llama.cpp does with such a vocabulary.
Result<bool> prepends_space(const TokenizerJson& json);

}  // namespace weightfs::mapping
