// Tensors from the calls in a pickle that would create them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "formats/pickle/escaped.h"
#include "formats/pickle/walk.h"
#include "formats/pytorch/rebuild.h"
#include "formats/pytorch/storage.h"

namespace weightfs::pytorch {

/// What was found in pickles of PyTorch.
struct Contents : pickle::Contents {
  using pickle::Contents::Contents;

  Map quantized;                           ///< by tensor: the scheme, scales and zero points
  Map sparse;                              ///< by tensor: the layout and the shape
  std::set<std::string_view> opaque = {};  ///< the types whose elements are shown as bytes
};

/// Fails with unsupported if a tensor repeats the elements of its storage and has more than 1 GiB: programs that
/// read all files must get to an end.
Result<void> check_expansion(const TorchType& type, const Shape& shape, const Slice& storage);

/// Adds tensors of one pickle. `arrays` adds the arrays of NumPy that some tensors are made of.
class TensorReader final : public pickle::Objects {
 public:
  TensorReader(const Pickle& pickle, const pickle::File& file, const StorageBytes& storages, pickle::Objects& arrays,
               Contents& out)
      : pickle_(pickle), file_(file), storages_(storages), arrays_(arrays), out_(out) {}

  /// A tensor; or a storage, as a tensor with one dimension.
  Result<std::optional<pickle::Meaning>> meaning(const std::string& name, Index value) override;

  /// Adds the tensor that a call creates: its parts, if it is sparse. A tensor that cannot be read is refused, with a
  /// warning. Fails with io and resource, and as the budget does.
  Result<void> add(const std::string& name, const TensorCall& call) { return add(name, call, 0); }

  /// Adds a storage as a tensor with one dimension.
  Result<void> add_storage(const std::string& name, Index persistent);

  /// Whether a call was one of a whole file in bytes that was read.
  bool has_loaded(Index call) const {
    const auto found = loaded_.find(call);
    return found != loaded_.end() && found->second;
  }

 private:
  Result<void> add(const std::string& name, const TensorCall& call, int depth);
  Result<void> add_dense(const std::string& name, const TensorCall& call, int depth);
  Result<void> add_sparse(const std::string& name, const std::vector<Index>& arguments, int depth);
  Result<void> add_nested(const std::string& name, Index arguments, int depth);
  Result<void> add_array(const std::string& name, Index arguments);
  Result<void> add_part(const std::string& name, Index value, int depth);
  Result<void> add_quantizer(const std::string& name, Index quantizer);
  Result<void> add_channels(const std::string& name, const char* what, Index value, Map& fact);
  Result<void> add_read(Tensor tensor, const Result<void>& problem);
  Result<void> read(Tensor& tensor, const TensorCall& call);
  Result<void> read_unknown(Tensor& tensor, std::string_view type, const std::vector<Index>& arguments,
                            const Slice& storage);
  Result<void> read_meta(Tensor& tensor, const std::vector<Index>& arguments) const;
  Conversion conversion(const TorchType& type, const TensorCall& call, const std::vector<Index>& arguments) const;
  bool flag(Index dict, std::string_view key) const;

  Result<LoadedStorage> storage_of(Index value);
  std::optional<std::string> script_of(Index persistent) const;
  Result<void> add_script(const std::string& name, const std::string& id);

  const Pickle& pickle_;
  const pickle::File& file_;
  const StorageBytes& storages_;
  pickle::Objects& arrays_;
  Contents& out_;
  std::map<Index, Result<LoadedStorage>> loaded_;
};

}  // namespace weightfs::pytorch
