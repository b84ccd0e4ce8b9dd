// The weights and constants of an archive: JSON files that describe tensors, and a member with the bytes of each
// storage. As torch/export/pt2_archive/_package.py of torch 2.9 writes them.
#pragma once

#include <string>

#include "base/values/value.h"
#include "formats/archive/archive.h"
#include "formats/pytorch/tensors.h"
#include "formats/string_pool.h"

namespace weightfs::pt2 {

/// Adds the tensors of an archive.
class Payloads {
 public:
  Payloads(const archive::Archive& archive, const Container& container, bool big_endian, pytorch::Contents& out)
      : archive_(archive), container_(container), big_endian_(big_endian), out_(out), scopes_(out.string_pool) {}

  /// Adds the tensors that a JSON file in `directory`, a path with `/`, describes: in the scope `scope`. One that is
  /// described wrongly, or whose member is missing, is refused. Fails with corrupt and unsupported if the JSON is not
  /// such a file, and as reading and the budget do.
  Result<void> add(const Source& config, const std::string& directory, std::string_view scope);

 private:
  Result<void> add_tensor(const std::string& name, const Map& entry, const std::string& directory);
  Result<void> add_pickled(const Map& entry, const std::string& directory, Tensor tensor);
  Result<void> refuse(Tensor tensor, const Error& reason);
  Result<const pytorch::TorchType*> describe(const Map& meta, Tensor& tensor);
  Result<Slice> read(const Map& entry, const Map& meta, const std::string& directory, const pytorch::TorchType& type,
                     const Shape& shape);
  Result<SourcePtr> member(const Map& entry, const std::string& directory) const;

  const archive::Archive& archive_;
  const Container& container_;
  bool big_endian_;
  pytorch::Contents& out_;
  StringPool scopes_;
  std::string_view scope_;
  uint64_t objects_ = 0;
};

}  // namespace weightfs::pt2
