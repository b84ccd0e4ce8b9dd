// A folder whose files are strings.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "formats/format.h"

namespace weightfs::test {

using Files = std::map<std::string, std::string, std::less<>>;

class MemoryFolder final : public Folder {
 public:
  explicit MemoryFolder(Files files) : files_(std::move(files)) {}

  Result<std::vector<std::string>> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files_) names.push_back(name);
    return names;
  }
  Result<SourcePtr> open(std::string_view name) const override {
    const auto file = files_.find(name);
    if (file == files_.end()) return failure(Code::not_found, "no such file");
    return in_memory(file->second);
  }

 private:
  Files files_;
};

}  // namespace weightfs::test
