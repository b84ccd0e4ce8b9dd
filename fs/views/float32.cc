#include "formats/float32.h"

#include "fs/views/npy.h"
#include "fs/views/view.h"

namespace weightfs::views {
namespace {

bool has_numbers(const Model& model, size_t tensor) { return has_float32_npy(model.tensors[tensor]); }

std::optional<uint64_t> float32_size(const Model& model, size_t index) {
  const TensorView& tensor = model.tensors[index];
  return float32_npy_header(tensor).size() + element_count(tensor.shape) * sizeof(float);
}

Result<SourcePtr> open_float32(const Model& model, size_t index) {
  const TensorView& tensor = model.tensors[index];
  const auto affine = model.affine_numbers->find(index);
  const SourcePtr values =
      affine == model.affine_numbers->end() ? float32_values(tensor) : affine_values(tensor, affine->second);
  return concat({in_memory(float32_npy_header(tensor)), values});
}

}  // namespace

extern const View kFloat32View;
const View kFloat32View = {
    .directory = "float32", .suffix = ".npy", .has = has_numbers, .size = float32_size, .open = open_float32};

}  // namespace weightfs::views
