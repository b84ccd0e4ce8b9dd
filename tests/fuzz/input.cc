#include "tests/fuzz/input.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "tests/fuzz/sibling.h"
#include "tests/fuzz/target.h"
#include "tests/support/small_disk.h"

namespace weightfs::test {
namespace {

std::atomic<uint64_t> bytes_read = 0;

class CountedSource final : public Source {
 public:
  explicit CountedSource(std::string_view bytes) : bytes_(in_memory(std::string(bytes))) {}

  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > size() || out.size() > size() - offset)
      complain(fmt::format("{} bytes read at {} of {}", out.size(), offset, size()));
    // A read costs about as much as copying so many bytes.
    constexpr uint64_t kCostOfOne = 64;
    bytes_read += out.size() + kCostOfOne;
    return bytes_->read(offset, out);
  }

 private:
  SourcePtr bytes_;
};

// `bytes` up to the next line that begins the bytes of another file; those are left in `bytes`.
std::string_view cut_file(std::string_view& bytes) {
  const std::string_view file = bytes.substr(0, std::min(bytes.find(kSibling), bytes.find(kFile)));
  bytes.remove_prefix(file.size());
  return file;
}

}  // namespace

void complain(const std::string& what) {
  std::fprintf(stderr, "check failed: %s\n", what.c_str());
  std::abort();
}

SourcePtr counted_source(std::string_view bytes) { return std::make_shared<CountedSource>(bytes); }

uint64_t counted_bytes() { return bytes_read; }

Result<std::vector<std::string>> FileSet::names() const {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files_)
    if (name.find('/') == name.npos) names.push_back(name);
  return names;
}

Result<SourcePtr> FileSet::open(std::string_view name) const {
  const auto file = files_.find(name);
  if (file == files_.end()) return failure(Code::not_found, fmt::format("{} does not exist", quoted(name)));
  return file->second;
}

Result<std::vector<Part>> FileSet::parts() const {
  std::vector<Part> parts;
  for (const auto& [name, bytes] : files_) parts.push_back({name, Later<SourcePtr>::of(bytes)});
  return parts;
}

Container Input::named(std::string_view name) const {
  FileSet folder = beside;
  folder.add(name, own);
  return {std::string(name), own, std::make_shared<FileSet>(std::move(folder)), std::make_shared<SmallDisk>()};
}

Input parse_input(std::string_view bytes) {
  Input input;
  const std::string_view own = cut_file(bytes);
  input.own = counted_source(own);
  SourcePtr sibling = counted_source(own);
  while (!bytes.empty()) {
    std::string_view name;
    if (bytes.starts_with(kSibling)) {
      bytes.remove_prefix(kSibling.size());
    } else {
      bytes.remove_prefix(kFile.size());
      const size_t end = bytes.find(kEndOfLine);
      if (end == bytes.npos) break;
      name = bytes.substr(0, end);
      bytes.remove_prefix(end + kEndOfLine.size());
    }
    SourcePtr file = counted_source(cut_file(bytes));
    if (name.empty())
      sibling = std::move(file);
    else if (name.find('\0') == name.npos)
      input.beside.add(name, std::move(file));
  }
  for (const char* name : {"a.safetensors", "b.safetensors", "m-00002-of-00003.gguf"})
    if (!input.beside.open(name)) input.beside.add(name, sibling);
  return input;
}

}  // namespace weightfs::test
