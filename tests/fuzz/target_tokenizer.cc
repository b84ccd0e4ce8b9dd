// Target of the tokenizer of a repository: the input is config.json, with the other small files beside it.
#include <fmt/core.h>

#include <memory>
#include <string>

#include "base/text.h"
#include "formats/dtype.h"
#include "formats/mapping/keys.h"
#include "formats/mapping/repository.h"
#include "formats/mapping/tokenizer.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"
#include "tests/support/one_line.h"

namespace weightfs::test {
namespace {

constexpr uint64_t kEmbeddings = 64;  // rows: as many tokens as the seeds have

void check_reason(const Error& error) {
  if (!is_one_line(error.message)) complain("an error that is not one line: " + quoted(error.message));
}

// Reads the keys back, as the metadata of a GGUF.
void check_keys(const mapping::Keys& keys) {
  std::string gguf("GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16);
  for (size_t i = 0; i < sizeof(uint64_t); ++i) gguf += static_cast<char>(keys.count() >> (8 * i) & 0xFF);
  const auto read = read_model({.name = "m.gguf", .bytes = in_memory(gguf + keys.bytes())});
  if (!read) complain("keys that are not those of a GGUF: " + quoted(read.error().message));
}

void run_tokenizer(std::string_view input) {
  const Input files = parse_input(input);
  auto beside = std::make_shared<FileSet>(files.beside);
  beside->add("config.json", files.own);
  auto model = std::make_shared<Model>();
  model->budget = std::make_shared<Budget>(input.size());
  model->beside = beside;
  model->tensors.push_back(Tensor{.name = "model.embed_tokens.weight",
                                  .dtype = dtype_named("bfloat16"),
                                  .stored_dtype = "BF16",
                                  .scope = {},
                                  .shape = {kEmbeddings, 4},
                                  .source = {}});
  auto repository = mapping::Repository::open(model, "m");
  if (!repository) return check_reason(repository.error());
  mapping::Keys keys;
  if (const auto added = mapping::add_tokenizer(**repository, keys); !added) return check_reason(added.error());
  check_keys(keys);
  const auto rows = mapping::rows_of_embeddings(**repository);
  if (!rows) return check_reason(rows.error());
  if (*rows && **rows >= kEmbeddings) complain(fmt::format("{} of {} rows are kept", **rows, kEmbeddings));
}

}  // namespace

const Target kTokenizerTarget = {.name = "tokenizer",
                                 .run = run_tokenizer,
                                 .limits = {.memory = 1'000'000, .memory_per_byte = 400},
                                 .mutate = mutate_text};

}  // namespace weightfs::test
