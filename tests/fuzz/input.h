// A fuzz input: a container's bytes and the files beside it. Reads are counted, and must not go past the end.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"
#include "formats/model.h"

namespace weightfs::test {

/// Bytes in memory with counted reads. A read beyond the end fails the check: readers know the size.
SourcePtr counted_source(std::string_view bytes);

/// The number of bytes read from counted sources since the process began.
uint64_t counted_bytes();

/// Files by name; one with a `/` in its name is in a directory.
class FileSet final : public Folder {
 public:
  void add(std::string_view name, SourcePtr bytes) { files_.insert_or_assign(std::string(name), std::move(bytes)); }

  Result<std::vector<std::string>> names() const override;
  Result<SourcePtr> open(std::string_view name) const override;
  Result<std::vector<Part>> parts() const override;

 private:
  std::map<std::string, SourcePtr, std::less<>> files_;
};

struct Input {
  SourcePtr own;
  FileSet beside;

  /// The container under this name.
  Container named(std::string_view name) const;
};

/// Parses an input in the format of sibling.h: the container, then the files beside it.
Input parse_input(std::string_view bytes);

/// Aborts unless the error is about the bytes, in one line that begins with the container's name.
void check_refusal(const Container& container, const Error& error);

/// Aborts if a tensor exceeds its container, or a warning is not one line.
void check_model(const Model& model);

/// Reads the container as `format`, checks the model, and renders its documents.
void read_checked(const Container& container, std::string_view format);

}  // namespace weightfs::test
