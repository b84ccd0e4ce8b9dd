#include <fmt/core.h>

#include "base/text.h"
#include "formats/completeness.h"
#include "fs/views/view.h"

namespace weightfs::views {
namespace {

bool has_tensor(const Model&, size_t) { return true; }

std::optional<uint64_t> tensor_size(const Model& model, size_t tensor) { return model.tensors.nbytes(tensor); }

Result<SourcePtr> open_tensor(const Model& model, size_t index) {
  const TensorView& tensor = model.tensors[index];
  if (tensor.source.refused())
    return failure(completeness_of(model).is_complete() ? Code::unsupported : Code::corrupt,
                   fmt::format("tensor {} was refused: see warnings.txt", quoted(tensor.name)));
  return std::make_shared<Slice>(tensor.source);
}

}  // namespace

const View kTensorsView = {
    .directory = "tensors", .suffix = "", .has = has_tensor, .size = tensor_size, .open = open_tensor};

}  // namespace weightfs::views
