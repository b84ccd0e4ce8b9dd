// The directory of a container in memory.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/memory_folder.h"
#include "tests/support/small_disk.h"
#include "tests/support/small_models.h"

namespace weightfs::test {

/// The files beside a container, and the container.
class Surroundings final : public Folder {
 public:
  Surroundings(Files beside, std::string name, SourcePtr own)
      : beside_(std::move(beside)), name_(std::move(name)), own_(std::move(own)) {}

  Result<std::vector<std::string>> names() const override {
    auto names = TRY(beside_.names());
    names.insert(std::lower_bound(names.begin(), names.end(), name_), name_);
    return names;
  }
  Result<SourcePtr> open(std::string_view name) const override {
    return name == name_ ? Result<SourcePtr>(own_) : beside_.open(name);
  }
  Result<std::vector<Part>> parts() const override {
    auto parts = TRY(beside_.parts());
    const auto less = [](const Part& part, const std::string& name) { return part.path < name; };
    parts.insert(std::lower_bound(parts.begin(), parts.end(), name_, less), Part{name_, Later<SourcePtr>::of(own_)});
    return parts;
  }

 private:
  MemoryFolder beside_;
  std::string name_;
  SourcePtr own_;
};

/// The container of a small model, in its directory.
inline Container container_of(const SmallModel& small) {
  const SourcePtr bytes = in_memory(small.bytes);
  return {small.file_name, bytes, std::make_shared<Surroundings>(small.beside, small.file_name, bytes),
          std::make_shared<SmallDisk>()};
}

}  // namespace weightfs::test
