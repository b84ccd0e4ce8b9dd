// Any bytes as a container of each format, and as whatever they look like: read, and if that succeeds, mounted and
// walked. Beside the container lie files, which shards, an index and a directory that is a model lead to: those that
// the input names, and siblings of which all have the bytes that follow the line kSibling, or the container's own.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "formats/format.h"
#include "tests/fuzz/sibling.h"
#include "tests/support/promises.h"
#include "tests/support/small_disk.h"

namespace weightfs {
namespace {

using test::SmallDisk;

constexpr std::string_view kName = "m-00001-of-00003.gguf";

[[noreturn]] void complain(const std::string& what) {
  std::fprintf(stderr, "broken promise: %s\n", what.c_str());
  std::abort();
}

// Readers know the size of what they read: none asks for bytes beyond its end.
class Watched final : public Source {
 public:
  explicit Watched(std::string_view bytes) : bytes_(in_memory(std::string(bytes))) {}

  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > size() || out.size() > size() - offset)
      complain(str(out.size(), " bytes read at ", offset, " of ", size()));
    return bytes_->read(offset, out);
  }

 private:
  SourcePtr bytes_;
};

class Files final : public Folder {
 public:
  void add(std::string_view name, SourcePtr bytes) { files_.insert_or_assign(std::string(name), std::move(bytes)); }

  Result<std::vector<std::string>> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files_)
      if (name.find('/') == name.npos) names.push_back(name);
    return names;
  }
  Result<SourcePtr> open(std::string_view name) const override {
    const auto file = files_.find(name);
    if (file == files_.end()) return failure(Code::not_found, str(quoted(name), " does not exist"));
    return file->second;
  }
  Result<std::vector<Part>> parts() const override {
    std::vector<Part> parts;
    for (const auto& [name, bytes] : files_) parts.push_back({name, Later<SourcePtr>::of(bytes)});
    return parts;
  }

 private:
  std::map<std::string, SourcePtr, std::less<>> files_;
};

// What an input holds: the container's bytes, and the files beside it.
struct Input {
  SourcePtr own;
  Files beside;

  // The container under this name.
  Container named(std::string_view name) const {
    Files folder = beside;
    folder.add(name, own);
    return {std::string(name), own, std::make_shared<Files>(std::move(folder)), std::make_shared<SmallDisk>()};
  }
};

// `bytes` up to the next line that begins the bytes of another file; those are left in `bytes`.
std::string_view cut_file(std::string_view& bytes) {
  const std::string_view file = bytes.substr(0, std::min(bytes.find(test::kSibling), bytes.find(test::kFile)));
  bytes.remove_prefix(file.size());
  return file;
}

Input input_of(std::string_view bytes) {
  Input input;
  const std::string_view own = cut_file(bytes);
  input.own = std::make_shared<Watched>(own);
  SourcePtr sibling = std::make_shared<Watched>(own);
  while (!bytes.empty()) {
    std::string_view name;
    if (bytes.starts_with(test::kSibling)) {
      bytes.remove_prefix(test::kSibling.size());
    } else {
      bytes.remove_prefix(test::kFile.size());
      const size_t end = bytes.find(test::kEndOfLine);
      if (end == bytes.npos) break;
      name = bytes.substr(0, end);
      bytes.remove_prefix(end + test::kEndOfLine.size());
    }
    SourcePtr file = std::make_shared<Watched>(cut_file(bytes));
    if (name.empty())
      sibling = std::move(file);
    else if (name.find('\0') == name.npos)
      input.beside.add(name, std::move(file));
  }
  for (const char* name : {"a.safetensors", "b.safetensors", "m-00002-of-00003.gguf"})
    if (!input.beside.open(name)) input.beside.add(name, sibling);
  return input;
}

// Bytes in memory are a model or refused for what they hold (or, an index, for what is not beside it), in a sentence.
// Only what has to be unpacked may find no room, and what lies behind a link is not fetched.
void check_refusal(const Container& container, const Error& error) {
  const bool by_content = error.code == Code::corrupt || error.code == Code::unsupported ||
                          error.code == Code::not_found || error.code == Code::unreachable;
  if (!by_content && !SmallDisk::refused(error)) complain("refused as no bytes can be: " + error.message);
  if (!test::is_one_line(error.message) || !error.message.starts_with(container.name))
    complain("an error in disorder: " + error.message);
}

// What is named by its digest is served only when it is that: else there is no byte of it, from the first to the last.
void check_digest(const std::string& name, const Source& bytes, const Digest& digest) {
  const auto text = read_text(bytes, 0, bytes.size());
  if (text && sha256(*text) != digest) complain(quoted(name) + ": other bytes served than those of its digest");
  if (text) return;
  std::byte first;
  if (bytes.read(0, std::span(&first, 1))) complain(quoted(name) + ": a byte served that did not prove right");
  if (text.error().code != Code::mismatch) complain(quoted(name) + ": " + text.error().message);
}

// The blobs of a manifest, and the tensors that are one each.
void check_digests(const Model& model) {
  for (const Part& part : model.parts)
    if (const auto bytes = part.source.get(); bytes && part.digest) check_digest(part.path, **bytes, *part.digest);
  for (const auto& [place, digest] : model.digests)
    check_digest(model.tensors[place].name, model.tensors[place].source, digest);
}

void try_as(const Container& container, const Format* format) {
  auto model = read_model(container, format);
  if (!model) return check_refusal(container, model.error());
  if (format == nullptr && !is_model(container).value_or(false)) complain("read, but not recognised");
  if (model->format == "ollama") check_digests(*model);
  const std::string broken = test::Promises(std::make_shared<Model>(std::move(*model))).broken();
  if (!broken.empty()) complain(broken);
}

// Files that a directory which is a model is named by, and one that a graph lies beside.
constexpr std::pair<std::string_view, std::string_view> kKeyFiles[] = {
    {"carton.toml", "carton"},
    {"metadata.json", "tvm-mlf"},
    {"tensor-cache.json", "tensor-cache"},
    {"m.params", "tvm-params"},
};

}  // namespace
}  // namespace weightfs

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weightfs;
  const Input input = input_of({reinterpret_cast<const char*>(data), size});
  const Container container = input.named(kName);
  try_as(container, nullptr);
  for (const Format& format : formats()) try_as(container, &format);
  for (const auto& [name, format] : kKeyFiles) {
    const Container key = input.named(name);
    try_as(key, nullptr);
    try_as(key, format_named(format));
  }
  return 0;
}
