// External data: the files beside the model that hold the bytes of its tensors. They are opened only below the model's
// directory.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/protobuf/scanner.h"

namespace weightfs::onnx {

/// The entries of TensorProto.external_data that are used.
struct ExternalPlace {
  std::string location;
  std::optional<std::string> offset;  ///< decimal, as in the file
  std::optional<std::string> length;  ///< the same
  std::optional<Sha1> checksum;       ///< of the whole file
};

/// Reads one entry of external_data into `place`; unknown keys are ignored. Fails as Scanner does.
Result<void> read_external_entry(protobuf::Scanner& scanner, const protobuf::Message& entry, ExternalPlace& place);

class ExternalFiles {
 public:
  /// The container outlives this object.
  explicit ExternalFiles(const Container& container) : container_(container) {}

  /// The bytes of a tensor of `size` bytes; without a size, those of the place, which must have a length. Nothing if
  /// the file cannot be opened: finish() reports it. Fails with corrupt if the place is not valid, and with
  /// Code::resource.
  Result<std::optional<Slice>> bytes(const ExternalPlace& place, std::optional<uint64_t> size);

  /// Adds the files to the parts of the model, their checksums to its checks, and those that cannot be opened to
  /// the warnings.
  void finish(Model& model, Warnings& warnings) const;

 private:
  struct File {
    SourcePtr bytes;           // null if it cannot be opened
    Error reason;              // then
    uint64_t lost = 0;         // tensors in it, then
    std::optional<Sha1> sha1;  // that a tensor has of it
    bool is_disputed = false;  // another tensor has another
  };

  Result<File*> file_at(const std::string& location);

  const Container& container_;
  std::map<std::string, File> files_;  // by path
  std::vector<std::string> order_;     // of their first use
};

}  // namespace weightfs::onnx
