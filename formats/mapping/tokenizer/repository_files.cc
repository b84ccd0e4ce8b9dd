#include "formats/mapping/tokenizer/repository_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "formats/grouped.h"

namespace weightfs::mapping {
namespace {

// The first line of a vocabulary of tiktoken, which some repositories call tokenizer.model: "!" in base64, and its
// rank.
constexpr std::string_view kTiktoken = "IQ== 0";

// Gemma3TextConfig of transformers, for the repositories whose config.json leaves it out.
constexpr uint64_t kVocabularyOfGemma3 = 262'208;

constexpr auto kEmbeddings = std::to_array<std::string_view>(
    {"embed_tokens.weight", "embeddings.word_embeddings.weight", "tok_embeddings.weight", "wte.weight"});

bool is_embeddings(std::string_view name) {
  return std::ranges::any_of(kEmbeddings, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

Result<OpenedFiles> open_tokenizer_files(Repository& repository) {
  OpenedFiles files;
  files.json = TRY(repository.file("tokenizer.json"));
  files.pieces = TRY(repository.file("tokenizer.model"));
  files.tokenizer_config = TRY(repository.object("tokenizer_config.json"));
  if (files.tokenizer_config != nullptr && files.tokenizer_config->empty()) files.tokenizer_config = nullptr;
  if (files.pieces != nullptr && files.pieces->size() >= kTiktoken.size() &&
      TRY(read_text(*files.pieces, 0, kTiktoken.size())) == kTiktoken) {
    if (files.json == nullptr) return failure(Code::unsupported, "the tokenizer is tiktoken only");
    files.pieces = nullptr;
  }
  if (files.json != nullptr || files.pieces != nullptr) return files;
  if (TRY(repository.file("tekken.json")) != nullptr)
    return failure(Code::unsupported, "the tokenizer is tekken.json only");
  return failure(Code::unsupported, "no tokenizer.json or tokenizer.model beside the tensors");
}

bool reads_pieces(Repository& repository, const OpenedFiles& files) {
  if (files.pieces == nullptr) return false;
  if (files.json == nullptr) return true;
  switch (repository.architecture().id) {
    case Arch::llama:
    case Arch::granite:
    case Arch::smollm3:
    case Arch::mistral3:
    case Arch::qwen2:
    case Arch::qwen3:
    case Arch::gemma2:
    case Arch::gemma3:
      return true;
    case Arch::phi3:
      return files.tokenizer_config == nullptr ||
             text_in(*files.tokenizer_config, "tokenizer_class") != "GPT2Tokenizer";
    case Arch::deepseek2:
      return repository.class_name() == "DeepseekForCausalLM";
    default:
      return false;
  }
}

std::optional<uint64_t> embedding_rows(const Model& model) {
  std::optional<uint64_t> rows;
  for (size_t i = 0; i < model.tensors.size(); ++i)
    if (is_embeddings(model.tensors.name(i)) && model.tensors.shape(i).size() == 2)
      rows = std::max(rows.value_or(0), model.tensors.shape(i)[0]);
  return rows;
}

bool drops_rows(const Repository& repository) {
  return repository.architecture().id == Arch::gemma3 || repository.architecture().id == Arch::gemma4;
}

Result<uint64_t> vocabulary_size(Repository& repository, uint64_t found) {
  const std::optional<uint64_t> rows = embedding_rows(repository.model());
  const bool may_drop = drops_rows(repository);
  uint64_t size = repository.config().number({"vocab_size"}).value_or(0);
  if (size == 0) size = rows && (!may_drop || rows == kVocabularyOfGemma3) ? *rows : found;
  if (size == 0 || size > kMaxTokens)
    return failure(Code::unsupported, fmt::format("a vocabulary of {} tokens; at most {} are supported", grouped(size),
                                                  grouped(kMaxTokens)));
  if (rows && (may_drop ? size > *rows : size != *rows))
    return failure(Code::unsupported,
                   fmt::format("a vocabulary of {} tokens, and embeddings of {} rows", grouped(size), grouped(*rows)));
  return size;
}

}  // namespace weightfs::mapping
