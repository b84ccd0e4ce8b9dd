// Tensors from the calls in a pickle that would create them.
#pragma once

#include <string>
#include <vector>

#include "formats/common/warnings.h"
#include "formats/pytorch/rebuild.h"
#include "formats/pytorch/storage.h"

namespace weightfs::pytorch {

/// What was found in pickles. The metadata and the tensors are charged to `charges`.
struct Contents {
  explicit Contents(Budget& budget) : charges(budget) {}

  Charges charges;
  TensorList tensors;
  Map metadata;           ///< values that are no tensors
  Map quantized;          ///< by tensor: the scheme, scales and zero points
  Map sparse;             ///< by tensor: the layout and the shape
  List globals;           ///< names that are neither of tensors nor of plain values
  std::string dangerous;  ///< those of them that can run code, joined by ", "
  Warnings warnings;
};

/// Adds tensors of one pickle.
class TensorReader {
 public:
  TensorReader(const Pickle& pickle, const StorageBytes& storages, Contents& out)
      : pickle_(pickle), storages_(storages), out_(out) {}

  /// Adds the tensor that a call creates: its parts, if it is sparse. A tensor that cannot be read is refused, with a
  /// warning. Fails with io and resource, and as the budget does.
  Result<void> add(const std::string& name, const TensorCall& call) { return add(name, call, 0); }

  /// Adds a storage as a tensor with one dimension.
  Result<void> add_storage(const std::string& name, Index persistent);

 private:
  Result<void> add(const std::string& name, const TensorCall& call, int depth);
  Result<void> add_dense(const std::string& name, const TensorCall& call, int depth);
  Result<void> add_sparse(const std::string& name, const std::vector<Index>& arguments, int depth);
  Result<void> add_part(const std::string& name, Index value, int depth);
  Result<void> add_quantizer(const std::string& name, Index quantizer, int depth);
  Result<void> add_read(Tensor tensor, const Result<void>& problem);
  Result<void> read(Tensor& tensor, const TensorCall& call) const;
  Result<void> read_meta(Tensor& tensor, const std::vector<Index>& arguments) const;
  Conversion conversion(const TorchType& type, const TensorCall& call, const std::vector<Index>& arguments) const;
  Result<std::vector<uint64_t>> sizes(Index value, std::string_view what) const;
  bool flag(Index dict, std::string_view key) const;

  const Pickle& pickle_;
  const StorageBytes& storages_;
  Contents& out_;
};

}  // namespace weightfs::pytorch
