// Buffers in files beside the model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/format.h"
#include "formats/tflite/file.h"

namespace weightfs::tflite {

/// The external buffers of a file. Their files are opened on first use, once each. Not thread-safe.
class ExternalBuffers {
 public:
  /// The file and the container outlive it.
  ExternalBuffers(const File& file, const Container& container) : file_(file), container_(container) {}

  /// The bytes of the external buffer with this id, in a file of the container's directory. Fails with corrupt if there
  /// is no such buffer or its range is not inside the file, with not_found without the file, and with unsupported if it
  /// is packed.
  Result<Slice> bytes(uint32_t id);

  /// The files that were opened, by name.
  std::vector<Part> parts() const;

 private:
  struct Place {
    uint32_t group = 0;
    uint64_t offset = 0;
    uint64_t length = 0;
    std::string packing;
  };

  Result<void> read_places();
  Result<SourcePtr> open(uint32_t group);

  const File& file_;
  const Container& container_;
  bool is_read_ = false;
  std::map<uint32_t, Place> places_;             // by id
  std::map<uint32_t, Result<SourcePtr>> files_;  // by group
  std::map<std::string, SourcePtr> opened_;      // by name
};

}  // namespace weightfs::tflite
