#include "formats/float32.h"

#include <functional>
#include <memory>
#include <numeric>

namespace weightfs {

bool has_float32(const DType& dtype) { return dtype.name == "float32" && dtype.npy_descr == "<f4"; }

SourcePtr float32_values(const TensorView& tensor) { return std::make_shared<Slice>(tensor.source); }

uint64_t element_count(ShapeView shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

}  // namespace weightfs
