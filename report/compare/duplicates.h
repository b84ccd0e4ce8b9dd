// Equal tensors of one or more models.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/digest.h"
#include "formats/model.h"
#include "report/compare/contents.h"
#include "report/compare/tensors.h"

namespace weightfs::compare {

/// Tensors with the same dtype and bytes, at least two.
struct EqualTensors {
  Digest digest;
  uint64_t nbytes = 0;
  uint64_t copies = 0;  ///< in storage: tensors that are the same range of a file share a copy
  std::vector<TensorPlace> tensors;

  uint64_t cost() const { return (copies - 1) * nbytes; }  ///< bytes that the other copies take
};

struct Duplicates {
  struct Unreadable {
    TensorPlace place;
    Error error;
  };
  std::vector<EqualTensors> groups;  ///< the most expensive first
  std::vector<Unreadable> unreadable;
};

/// Finds tensors that are equal, also across models. Reads the first bytes of tensors of equal type and size, and
/// hashes those that begin alike; a tensor whose digest is known is not read. Empty and refused tensors are left out.
/// Fails with resource.
Result<Duplicates> find_duplicates(std::span<const ModelPtr> models, size_t threads, const ReportProgress& report);

}  // namespace weightfs::compare
