#include "formats/trees/arrays.h"

#include <utility>

#include "base/text.h"

namespace weightfs::trees {

Result<void> Arrays::add(std::string name, Element element, const std::optional<Run>& run) {
  TRY_VOID(budget_.charge(Cost::tensor));
  TRY_VOID(budget_.charge(Cost::kept, name.size() + sizeof(uint64_t)));
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype_of(element);
  tensor.stored_dtype = tensor.dtype->name;
  if (!run)
    warnings_.refuse(Code::corrupt, "tensor {}: not only numbers of type {}: refused", quoted(tensor.name),
                     tensor.dtype->name);
  else
    tensor.shape = {run->count};
  model_.tensors.push_back(tensor, run ? run->first_byte : 0, run ? run->count * tensor.dtype->block_bytes : 0);
  is_refused_.push_back(!run);
  return {};
}

void Arrays::drop_from(size_t first) {
  std::vector<size_t> dropped;
  for (size_t i = first; i < model_.tensors.size(); ++i) dropped.push_back(i);
  model_.tensors.erase(dropped);
  is_refused_.resize(first);
}

Result<void> Arrays::finish(const SourcePtr& file) {
  const SourcePtr numbers = decoded(file, std::move(runs_));
  TensorList& tensors = model_.tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t begin = tensors.offset(i);
    if (!is_refused_[i]) TRY_VOID(tensors.set_source(i, numbers, {begin, begin + tensors.nbytes(i)}));
  }
  return {};
}

}  // namespace weightfs::trees
