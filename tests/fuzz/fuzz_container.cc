// Any bytes as a container of each format, and as whatever they look like: read, and if that succeeds, mounted and
// walked. Beside the container lie siblings, which shards and an index lead to: what follows the line kSibling in the
// input, or the same bytes again.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"
#include "tests/fuzz/sibling.h"
#include "tests/support/promises.h"

namespace weightfs {
namespace {

using test::kSibling;

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

class Siblings final : public Folder {
 public:
  explicit Siblings(std::string_view bytes) : bytes_(bytes) {}

  Result<std::vector<std::string>> names() const override { return names_; }
  Result<SourcePtr> open(std::string_view name) const override {
    if (std::find(names_.begin(), names_.end(), name) != names_.end()) return std::make_shared<Watched>(bytes_);
    return failure(Code::not_found, str(quoted(name), " does not exist"));
  }
  Result<std::vector<Part>> parts() const override {
    std::vector<Part> parts;
    for (const std::string& name : names_)
      parts.push_back({name, Later<SourcePtr>::of(std::make_shared<Watched>(bytes_))});
    return parts;
  }

 private:
  std::vector<std::string> names_ = {"a.safetensors", "b.safetensors", std::string(kName), "m-00002-of-00003.gguf"};
  std::string bytes_;
};

Container container_of(std::string_view input) {
  const size_t line = input.find(kSibling);
  const std::string_view own = input.substr(0, line);
  const std::string_view sibling = line == input.npos ? own : input.substr(line + kSibling.size());
  return {std::string(kName), std::make_shared<Watched>(own), std::make_shared<Siblings>(sibling)};
}

// Bytes in memory are a model or refused for what they hold (or, an index, for what is not beside it), in a sentence.
void check_refusal(const Error& error) {
  const bool by_content =
      error.code == Code::corrupt || error.code == Code::unsupported || error.code == Code::not_found;
  if (!by_content) complain("refused as no bytes can be: " + error.message);
  if (!test::is_one_line(error.message) || !error.message.starts_with(kName))
    complain("an error in disorder: " + error.message);
}

void try_as(const Container& container, const Format* format) {
  auto model = read_model(container, format);
  if (!model) return check_refusal(model.error());
  if (format == nullptr && !is_model(container)) complain("read, but not recognised");
  const std::string broken = test::Promises(std::make_shared<Model>(std::move(*model))).broken();
  if (!broken.empty()) complain(broken);
}

}  // namespace
}  // namespace weightfs

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weightfs;
  const Container container = container_of({reinterpret_cast<const char*>(data), size});
  try_as(container, nullptr);
  for (const Format& format : formats()) try_as(container, &format);
  return 0;
}
