#include "formats/executorch/tensors.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/code/list.h"
#include "formats/common/limits.h"
#include "formats/common/strided.h"
#include "formats/executorch/types.h"

namespace weightfs::executorch {
namespace {

// The strides of a tensor whose dimensions are in this order in memory.
Result<Strides> strides_of(const Shape& shape, const std::vector<uint8_t>& order) {
  if (order.empty()) return c_strides(shape);
  if (order.size() != shape.size())
    return failure(Code::corrupt, fmt::format("has {} dimensions, and {} in dim_order", shape.size(), order.size()));
  std::vector<bool> seen(shape.size());
  Shape stored_shape;
  for (const uint8_t dimension : order) {
    if (dimension >= shape.size() || seen[dimension])
      return failure(Code::corrupt, fmt::format("has a dim_order with {}, which is not an order of {} dimensions",
                                                dimension, shape.size()));
    seen[dimension] = true;
    stored_shape.push_back(shape[dimension]);
  }
  const Strides stored = c_strides(stored_shape);
  Strides strides(shape.size());
  for (size_t i = 0; i < order.size(); ++i) strides[order[i]] = stored[i];
  return strides;
}

}  // namespace

Result<Layout> read_layout(const flatbuffer::Table& table, flatbuffer::Slot scalar_type, flatbuffer::Slot sizes,
                           flatbuffer::Slot dim_order) {
  Layout layout;
  layout.scalar_type = TRY(table.number<int8_t>(scalar_type));
  layout.sizes = TRY(table.list(sizes, sizeof(int32_t)));
  layout.dim_order = TRY(table.list(dim_order, sizeof(uint8_t)));
  return layout;
}

Result<void> TensorAdder::tensor(std::string name, const Layout& layout, const Result<Slice>& bytes) {
  TRY_VOID(budget_.charge(Cost::tensor));
  TRY_VOID(budget_.charge(Cost::kept, name.size() + sizeof(uint64_t) * layout.sizes.size()));
  const TypeCode* const type = kScalarTypes.find(layout.scalar_type);
  Tensor tensor{
      .name = std::move(name),
      .dtype = dtype_of(type),
      .stored_dtype = type == nullptr ? spellings_.add(fmt::format("type {}", layout.scalar_type)) : type->name,
      .scope = {},
      .shape = {},
      .source = {}};
  if (const auto placed = place(tensor, layout, bytes); !placed) {
    if (!is_permanent(placed.error())) return tl::unexpected(placed.error());
    warnings_.refuse(placed.error().code, "tensor {}: {}", quoted(tensor.name), placed.error().message);
  }
  model_.tensors.push_back(tensor);
  return {};
}

// Sets the shape and the bytes of a tensor.
Result<void> TensorAdder::place(Tensor& tensor, const Layout& layout, const Result<Slice>& bytes) {
  tensor.shape = TRY(layout.sizes.shape());
  const Slice& storage = TRY(bytes);
  if (tensor.dtype->block_bytes == 0) {
    tensor.source = storage;
    return {};
  }
  const auto order = TRY(layout.dim_order.numbers<uint8_t>(kMaxDimensions));
  const Strides strides = TRY(strides_of(tensor.shape, order));
  const auto size = size_in_bytes(*tensor.dtype, tensor.shape);
  if (size && *size > storage.size())
    return failure(Code::corrupt, fmt::format("has {} bytes, and its shape needs {}", storage.size(), *size));
  const Slice elements = TRY(strided(storage, 0, *tensor.dtype, tensor.shape, strides));
  TRY_VOID(charge_gathering(budget_, elements, storage));
  tensor.source = elements;
  return {};
}

Result<void> TensorAdder::named_data(const flatbuffer::List& entries) {
  constexpr std::string_view kLibrary = "so_blob";  // cuda_backend.cpp and metal_backend.cpp of ExecuTorch 1 load it
  CodeList code;
  for (uint64_t i = 0; i < entries.size(); ++i) {
    const auto entry = TRY(entries.table(i));
    std::string key = TRY(entry.text(0, kMaxNameLength));
    const auto index = TRY(entry.number<uint32_t>(1));
    const auto bytes = segment(file_, index);
    const auto layout = TRY(entry.table(2));
    if (!layout.exists()) {
      if (key.ends_with(kLibrary))
        code.add({fmt::format("shared library {}", key), "", "when ExecuTorch loads a method of CUDA or Metal"});
      TRY_VOID(blob("named_data/" + key, bytes));
      continue;
    }
    const Layout read = TRY(read_layout(layout, 0, 1, 2));
    TRY_VOID(tensor(std::move(key), read, bytes));
  }
  std::move(code).move_to(model_.common);
  return {};
}

Result<void> TensorAdder::blob(const std::string& path, const Result<Slice>& bytes) {
  TRY_VOID(budget_.charge(Cost::member));
  TRY_VOID(budget_.charge(Cost::kept, path.size()));
  if (bytes)
    model_.parts.push_back({path, Later<SourcePtr>::of(std::make_shared<Slice>(*bytes))});
  else if (is_permanent(bytes.error()))
    warnings_.miss_file(bytes.error().code, "{}: {}", printable(path), bytes.error().message);
  else
    return tl::unexpected(bytes.error());
  return {};
}

// A text that the model owns, once.
}  // namespace weightfs::executorch
