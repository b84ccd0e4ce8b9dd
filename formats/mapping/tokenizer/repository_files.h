// The files of a repository that a tokenizer is made of, and how many tokens it has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/budget.h"
#include "base/result.h"
#include "base/source.h"
#include "formats/mapping/repository.h"
#include "formats/mapping/tokenizer/special_tokens.h"
#include "formats/mapping/tokenizer/tokenizer_json.h"

namespace weightfs::mapping {

/// Opened, but for tokenizer.json not read.
struct OpenedFiles {
  SourcePtr json;                         ///< tokenizer.json; null if there is none
  SourcePtr pieces;                       ///< tokenizer.model of SentencePiece; null if there is none
  const Map* tokenizer_config = nullptr;  ///< null if there is none, and if it has no fields
};

/// Fails as reading does, and with corrupt if tokenizer_config.json is damaged.
Result<OpenedFiles> open_tokenizer_files(Repository& repository);

/// Whether the tokenizer is made of tokenizer.model: the class of the model prefers it, or there is nothing else.
bool reads_pieces(Repository& repository, const OpenedFiles& files);

/// The number of rows of the embeddings; nothing if no tensor has the name of embeddings.
std::optional<uint64_t> embedding_rows(const Model& model);

/// Whether the converter drops the rows of the embeddings that have no token.
bool drops_rows(const Repository& repository);

/// How many tokens the vocabulary has: by config.json, else by the embeddings, or, where rows are dropped, `found`,
/// which is how many the tokenizer has. Fails with unsupported if there are more than kMaxTokens, and if llama.cpp
/// would refuse the embeddings because they have another number of rows.
Result<uint64_t> vocabulary_size(Repository& repository, uint64_t found);

}  // namespace weightfs::mapping
