// The text by whose tokens the converter of llama.cpp tells tokenizers apart, and the names that it has for them. Many
// names stand for one pre-tokenizer; the one that the converter would write makes a GGUF of the same bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weightfs::mapping {

extern const std::string_view kTestText;

/// How the pre-tokenizer of this family, the first name in its table, splits the text: the sizes of the parts in bytes.
/// Empty for an unknown name.
std::span<const uint8_t> parts_of_test_text(std::string_view family);

/// The name for the first 64 bits of the digest of the ids; empty if the converter has none.
std::string_view name_of_digest(uint64_t digest);

}  // namespace weightfs::mapping
