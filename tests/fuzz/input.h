// What an input holds: a container's bytes and the files beside it. Reads are counted, and none goes past the end.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"
#include "formats/model.h"

namespace weightfs::test {

/// Bytes in memory whose reads are counted. A read of bytes beyond the end is a broken promise: readers know the size.
SourcePtr counted_source(std::string_view bytes);

/// Bytes that were read from counted sources since the process began.
uint64_t counted_bytes();

/// Files by name; one whose name has a `/` lies in a directory.
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

/// The input as sibling.h has it: the container, then the files beside it.
Input parse_input(std::string_view bytes);

/// Aborts unless bytes in memory were refused for what they hold, in one line that begins with the container's name.
void check_refusal(const Container& container, const Error& error);

/// Aborts when a tensor reaches out of its container, or a warning is not one line.
void check_model(const Model& model);

/// Reads the container as `format`, checks what comes out, and renders its documents.
void read_checked(const Container& container, std::string_view format);

}  // namespace weightfs::test
