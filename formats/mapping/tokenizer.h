// The tokenizer of a repository as the keys tokenizer.* of a GGUF.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "formats/mapping/keys.h"
#include "formats/mapping/repository.h"

namespace weightfs::mapping {

/// Adds tokenizer.*, in the converter's order. Reads tokenizer.json as a stream. Fails with unsupported, in a sentence,
/// if llama.cpp has no such tokenizer, with corrupt if a file is damaged, as Budget::charge does, and as reading does.
Result<void> add_tokenizer(Repository& repository, Keys& keys);

/// The number of rows that the embeddings have in a GGUF of gemma3 and gemma4, whose converter drops those without a
/// token; nothing if all are kept. Fails as add_tokenizer() does.
Result<std::optional<uint64_t>> rows_of_embeddings(Repository& repository);

}  // namespace weightfs::mapping
