// A folder whose files are strings; those below it have a `/` in their names.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "formats/format.h"

namespace weightfs::test {

using Files = std::map<std::string, std::string, std::less<>>;

class MemoryFolder final : public Folder {
 public:
  /// `special`: the name of a FIFO, a device or the like, or of another file whose opening fails with `code`.
  explicit MemoryFolder(Files files, std::string special = {}, Code code = Code::io)
      : files_(std::move(files)), special_(std::move(special)), code_(code) {}

  Result<std::vector<std::string>> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files_)
      if (name.find('/') == name.npos) names.push_back(name);
    return names;
  }
  Result<SourcePtr> open(std::string_view name) const override {
    if (!special_.empty() && name == special_) return failure(code_, "not a regular file");
    const auto file = files_.find(name);
    if (file == files_.end()) return failure(Code::not_found, "no such file");
    return in_memory(file->second);
  }
  Result<std::vector<Part>> parts() const override {
    std::vector<Part> parts;
    for (const auto& [name, bytes] : files_) parts.push_back({name, Later<SourcePtr>::of(in_memory(bytes))});
    return parts;
  }

 private:
  Files files_;
  std::string special_;
  Code code_;
};

}  // namespace weightfs::test
