// The weight files of a Core ML package: records of raw values behind headers of 64 bytes. A program names a record by
// its file and offset.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/common/warnings.h"
#include "formats/format.h"

namespace weightfs::coreml {

class BlobFiles {
 public:
  /// `directory`: that of the model, relative to the container's folder; empty, or it ends with `/`. The container
  /// outlives this object.
  BlobFiles(const Container& container, std::string directory)
      : container_(container), directory_(std::move(directory)) {}

  /// The values of the record at `offset` of `file`, which begins with `@model_path/`; it must be of type `blob_type`
  /// and have `size` bytes. Fails with corrupt, and as Folder::open_below() and the budget do.
  Result<Slice> record(const std::string& file, uint64_t offset, uint32_t blob_type, uint64_t size);

  /// Adds the files that were opened to the parts of the model.
  void finish(Model& model) const;

 private:
  Result<SourcePtr> open(const std::string& path);

  const Container& container_;
  std::string directory_;
  std::map<std::string, Result<SourcePtr>> files_;  // by path
  std::vector<std::string> order_;                  // of their first use
};

}  // namespace weightfs::coreml
