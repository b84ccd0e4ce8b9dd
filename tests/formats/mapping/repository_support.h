// A repository of small files and of tensors without bytes, and keys of a GGUF as lines of text.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/mapping/keys.h"
#include "formats/mapping/repository.h"
#include "tests/support/memory_folder.h"

namespace weightfs::test {

/// Fails the test if the repository is refused.
inline std::unique_ptr<mapping::Repository> hub_repository(Files files, std::string name = "tiny",
                                                           const std::vector<std::string>& tensors = {}) {
  auto model = std::make_shared<Model>();
  model->beside = std::make_shared<MemoryFolder>(std::move(files));
  for (const std::string& tensor : tensors)
    model->tensors.push_back(Tensor{.name = tensor,
                                    .dtype = dtype_named("bfloat16"),
                                    .stored_dtype = "BF16",
                                    .scope = {},
                                    .shape = {1},
                                    .source = {}});
  auto opened = mapping::Repository::open(model, std::move(name));
  EXPECT_TRUE(opened) << (opened ? "" : opened.error().message);
  return opened ? std::move(*opened) : nullptr;
}

/// Decodes the bytes of mapping::Keys.
class KeyReader {
 public:
  explicit KeyReader(const mapping::Keys& keys) : bytes_(keys.bytes()) {}

  /// "llama.block_count u32 2", one key a line.
  std::vector<std::string> lines() {
    std::vector<std::string> out;
    while (at_ < bytes_.size()) {
      const std::string key = text();
      const auto type = number<uint32_t>();
      out.push_back(fmt::format("{} {}", key, value(type)));
    }
    return out;
  }

 private:
  template <class Number>
  Number number() {
    Number out{};
    std::memcpy(&out, bytes_.data() + at_, sizeof out);
    at_ += sizeof out;
    return out;
  }
  std::string text() {
    const auto size = number<uint64_t>();
    std::string out = bytes_.substr(at_, size);
    at_ += size;
    return out;
  }
  std::string bare(uint32_t type) {
    if (type == 4) return fmt::format("{}", number<uint32_t>());
    if (type == 5) return fmt::format("{}", number<int32_t>());
    if (type == 6) return fmt::format("{}", number<float>());
    if (type == 7) return number<char>() != 0 ? "true" : "false";
    return text();
  }
  std::string value(uint32_t type) {
    static constexpr std::array<const char*, 10> kNames = {"", "", "", "", "u32", "i32", "f32", "bool", "str", "list"};
    if (type != 9) return fmt::format("{} {}", kNames.at(type), bare(type));
    const auto element = number<uint32_t>();
    std::string out = fmt::format("{}[]", kNames.at(element));
    for (auto left = number<uint64_t>(); left > 0; --left) out += " " + bare(element);
    return out;
  }

  std::string bytes_;
  size_t at_ = 0;
};

inline std::vector<std::string> lines_of(const mapping::Keys& keys) { return KeyReader(keys).lines(); }

}  // namespace weightfs::test
