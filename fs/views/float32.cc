#include "fs/views/converted.h"
#include "fs/views/npy.h"
#include "fs/views/view.h"

namespace weightfs::views {
namespace {

bool is_in_view(const Model& model, size_t tensor) { return has_float32_npy(model.tensors[tensor]); }

std::optional<uint64_t> float32_size(const Model& model, size_t index) {
  const TensorView& tensor = model.tensors[index];
  return converted_npy_header(tensor, kFloat32).size() + element_count(tensor.shape) * sizeof(float);
}

Result<SourcePtr> open_float32(const Model& model, size_t index) {
  const std::string header = converted_npy_header(model.tensors[index], kFloat32);
  return concat({in_memory(header), converted(model, index, kFloat32)});
}

}  // namespace

const View kFloat32View = {
    .directory = "float32", .suffix = ".npy", .has = is_in_view, .size = float32_size, .open = open_float32};

}  // namespace weightfs::views
