// Target of the mapping between repositories and GGUFs. The input is a GGUF, of which a repository is made; or lines
// "NAME DTYPE ROWS,COLUMNS" of a repository, with config.json and the other small files beside, of which a GGUF is made
// in each type, read as a whole, and made a repository again.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "formats/mapping/hub/hub_files.h"
#include "formats/mapping/mapping.h"
#include "fs/views/model_file.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"
#include "tests/support/one_line.h"

namespace weightfs::test {
namespace {

constexpr uint64_t kMostTensors = 128;
constexpr uint64_t kMostBytes = 8192;  // of a tensor
constexpr std::array kTypes = {mapping::GgufType::stored, mapping::GgufType::float32, mapping::GgufType::float16,
                               mapping::GgufType::bfloat16, mapping::GgufType::q8_0};

// For inputs that have none: most mutations are not about the tokenizer.
constexpr std::string_view kTokenizer =
    R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})";
constexpr std::string_view kWordPieces =
    R"({"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"[SEP]":1,"[PAD]":2,"[CLS]":3,"[MASK]":4,"a":5}}})";

void check_refused(const Error& error) {
  if (!is_one_line(error.message)) complain("an error that is not one line: " + quoted(error.message));
}

std::string all_bytes(const Source& source) {
  std::string bytes(source.size(), '\0');
  const auto out = std::as_writable_bytes(std::span(bytes));
  if (const auto read = read_exact(source, 0, out); !read) complain("a read that fails: " + read.error().message);
  return bytes;
}

// A tensor of a line; nothing if it has no such type, or too many bytes.
std::optional<Tensor> tensor_of(std::string_view line, const SourcePtr& bytes) {
  const size_t end_of_name = line.find(' ');
  const size_t end_of_type = line.find(' ', end_of_name == line.npos ? line.size() : end_of_name + 1);
  if (end_of_type == line.npos) return std::nullopt;
  Tensor tensor;
  tensor.name = line.substr(0, end_of_name);
  tensor.stored_dtype = line.substr(end_of_name + 1, end_of_type - end_of_name - 1);
  tensor.dtype = dtype_named(tensor.stored_dtype);
  if (tensor.dtype == nullptr || tensor.dtype->block != 1 || tensor.dtype->packed_bits != 0) return std::nullopt;
  uint64_t size = tensor.dtype->block_bytes;
  for (std::string_view shape = line.substr(end_of_type + 1); !shape.empty();) {
    const size_t end = std::min(shape.find(','), shape.size());
    const auto dimension = parse_number<uint64_t>(shape.substr(0, end));
    if (!dimension || __builtin_mul_overflow(size, *dimension, &size)) return std::nullopt;
    tensor.shape.push_back(*dimension);
    shape.remove_prefix(std::min(end + 1, shape.size()));
  }
  if (size > kMostBytes) return std::nullopt;
  auto source = slice(bytes, 0, size);
  if (!source) complain("bytes that have no part of their size");
  tensor.source = std::move(*source);
  return tensor;
}

std::shared_ptr<Model> repository_of(std::string_view lines, FileSet beside, size_t budget) {
  auto model = std::make_shared<Model>();
  model->format = "safetensors";
  model->budget = std::make_shared<Budget>(budget);
  std::string numbers(kMostBytes, '\x3c');
  for (size_t i = 0; i < numbers.size(); i += 2) numbers[i] = static_cast<char>(i / 2);
  const SourcePtr bytes = in_memory(std::move(numbers));
  std::set<std::string, std::less<>> names;
  while (!lines.empty() && model->tensors.size() < kMostTensors) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    auto tensor = tensor_of(lines.substr(0, end), bytes);
    if (tensor && names.insert(tensor->name).second) model->tensors.push_back(*tensor);
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  const bool is_bert =
      names.contains("embeddings.word_embeddings.weight") || names.contains("bert.embeddings.word_embeddings.weight");
  if (!beside.open("tokenizer.json") && !beside.open("tokenizer.model"))
    beside.add("tokenizer.json", in_memory(std::string(is_bert ? kWordPieces : kTokenizer)));
  model->beside = std::make_shared<FileSet>(std::move(beside));
  return model;
}

// Makes a repository of a GGUF and reads it; its tensors.
ModelPtr check_hub(const ModelPtr& gguf) {
  if (!mapping::has_hub_names(*gguf)) return nullptr;
  for (const mapping::HubFile& file : mapping::hub_files(gguf).files) {
    const auto text = file.text.get();
    if (text)
      all_bytes(**text);
    else
      check_refused(text.error());
  }
  const auto hub = mapping::as_hub(gguf);
  if (!hub) {
    check_refused(hub.error());
    return nullptr;
  }
  std::set<std::string_view> names;
  for (const TensorView& tensor : (*hub)->tensors) {
    if (!names.insert(tensor.name).second) complain("two tensors are " + quoted(tensor.name));
    if (!tensor.source.refused() && tensor.nbytes() <= kMostBytes) all_bytes(tensor.source);
  }
  return *hub;
}

// What a repository has again has the shape that it had; rows without a token may be absent.
void check_again(const Model& stored, const Model& again) {
  std::map<std::string_view, ShapeView> shapes;
  for (const TensorView& tensor : stored.tensors) shapes.emplace(tensor.name, tensor.shape);
  for (const TensorView& tensor : again.tensors) {
    const auto found = shapes.find(tensor.name);
    if (found == shapes.end() || tensor.name.find("embed_tokens") != std::string_view::npos) continue;
    if (!std::ranges::equal(found->second, tensor.shape)) complain("another shape of " + quoted(tensor.name));
  }
}

void check_gguf(const ModelPtr& model) {
  const auto files = views::hub_gguf_files(model, "m", kTypes);
  if (!files) return check_refused(files.error());
  for (const views::ModelFile& file : *files) {
    const std::string bytes = all_bytes(*file.source);
    auto gguf = read_model({.name = "m.gguf", .bytes = in_memory(bytes)});
    if (!gguf) complain("a GGUF that cannot be read: " + gguf.error().message);
    if (const ModelPtr hub = check_hub(std::make_shared<Model>(std::move(*gguf)))) check_again(*model, *hub);
  }
}

void run_mapping(std::string_view input) {
  const Input files = parse_input(input);
  const std::string own = all_bytes(*files.own);
  if (own.starts_with("GGUF")) {
    auto gguf = read_model({.name = "m.gguf", .bytes = files.own});
    if (gguf)
      check_hub(std::make_shared<Model>(std::move(*gguf)));
    else
      check_refused(gguf.error());
    return;
  }
  const ModelPtr model = repository_of(own, files.beside, input.size());
  if (mapping::is_of_transformers(*model)) check_gguf(model);
  if (const auto named = mapping::with_gguf_names(model); !named) check_refused(named.error());
}

}  // namespace

const Target kMappingTarget = {.name = "mapping",
                               .run = run_mapping,
                               .limits = {.memory = 8'000'000,
                                          .memory_per_byte = 2000,
                                          .read = 200'000,
                                          .read_per_byte = 100,
                                          .time = 200'000'000},
                               .mutate = mutate_text};

}  // namespace weightfs::test
