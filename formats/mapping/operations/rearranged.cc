#include "formats/mapping/operations/rearranged.h"

#include <fmt/core.h>

#include <numeric>

#include "base/text.h"
#include "formats/common/strided.h"

namespace weightfs::mapping {
namespace {

std::string shape_text(ShapeView shape) {
  std::string text;
  for (const uint64_t size : shape) text += fmt::format("{}{}", text.empty() ? "" : ", ", size);
  return fmt::format("[{}]", text);
}

tl::unexpected<Error> does_not_fit(const TensorView& tensor, std::string_view expected) {
  return failure(Code::unsupported, fmt::format("tensor {} has the shape {}, {} expected", quoted(tensor.name),
                                                shape_text(tensor.shape), expected));
}

// The rows of a tensor: a row is the innermost dimension, or one number if there is only one dimension. Their units
// are elements, or bytes if elements are in blocks.
struct Rows {
  uint64_t count;
  uint64_t units;  // of a row
  const DType* unit;
};

Result<Rows> rows_of(const TensorView& tensor) {
  if (tensor.source.refused()) return failure(Code::corrupt, fmt::format("tensor {} is refused", quoted(tensor.name)));
  if (tensor.shape.empty()) return does_not_fit(tensor, "a dimension");
  const uint64_t elements = *elements_of(tensor.shape);
  if (elements == 0) return does_not_fit(tensor, "at least one element");
  const uint64_t inner = tensor.shape.size() == 1 ? 1 : tensor.shape.back();
  const uint64_t count = elements / inner;
  if (tensor.dtype->block == 1 && tensor.dtype->packed_bits == 0) return Rows{count, inner, tensor.dtype};
  if (tensor.nbytes() % count != 0 || inner % tensor.dtype->block != 0)
    return failure(Code::unsupported,
                   fmt::format("tensor {}: rows do not consist of whole blocks", quoted(tensor.name)));
  return Rows{count, tensor.nbytes() / count, dtype_named("uint8")};
}

// A view of the units of a tensor.
struct View {
  uint64_t offset;  // of the first one
  Shape shape;
  Strides strides;
};

Result<Slice> view(const TensorView& tensor, const Rows& rows, const View& view) {
  return strided(tensor.source, view.offset, *rows.unit, view.shape, view.strides);
}

// Rows in groups of `outer` times `inner` times `size`: the two are exchanged.
Result<Slice> exchanged(const TensorView& tensor, const Rows& rows, uint64_t outer, uint64_t middle, uint64_t inner) {
  const uint64_t groups = rows.count / (outer * middle * inner);
  const uint64_t row = rows.units;
  return view(
      tensor, rows,
      {0, {groups, middle, outer, inner * row}, {outer * middle * inner * row, inner * row, middle * inner * row, 1}});
}

Result<Tensor> with_source(const Tensor& tensor, Result<Slice> source) {
  if (!source) return tl::unexpected(std::move(source).error());
  Tensor made = tensor;
  made.source = std::move(*source);
  return made;
}

// Queries and keys: a head has the halves of its rows one after the other, and in ROPE NORM alternating.
Result<Tensor> permuted(const TensorView& tensor, uint64_t heads, bool is_reverse) {
  const Rows rows = TRY(rows_of(tensor));
  if (heads == 0 || rows.count % heads != 0 || rows.count / heads % 2 != 0)
    return failure(Code::unsupported, fmt::format("tensor {} has {} rows, not a multiple of {} heads with an even size",
                                                  quoted(tensor.name), rows.count, heads));
  const uint64_t half = rows.count / heads / 2;
  return with_source(copy_of(tensor),
                     is_reverse ? exchanged(tensor, rows, half, 2, 1) : exchanged(tensor, rows, 2, half, 1));
}

// Rows of value heads from `first` on: grouped by key heads, and in llama.cpp by their number in the group.
Result<Tensor> with_value_heads(const TensorView& tensor, const Sizes& sizes, uint64_t first, uint64_t size,
                                bool is_reverse) {
  const uint64_t keys = sizes.linear_key_heads;
  const uint64_t values = sizes.linear_value_heads;
  if (keys == values && keys > 0) return copy_of(tensor);
  const Rows rows = TRY(rows_of(tensor));
  uint64_t expected = 0;
  if (keys == 0 || values % keys != 0 || __builtin_mul_overflow(values, size, &expected) || first >= rows.count ||
      rows.count - first != expected)
    return does_not_fit(tensor, fmt::format("rows of {} value heads of {}", values, size));
  const uint64_t bytes = tensor.nbytes() / rows.count;
  TensorView behind = tensor;
  behind.source = TRY(slice(tensor.source.whole(), tensor.source.offset() + first * bytes, expected * bytes));
  const uint64_t group = values / keys;
  const Rows moved{expected, rows.units, rows.unit};
  const Slice source =
      TRY(is_reverse ? exchanged(behind, moved, group, keys, size) : exchanged(behind, moved, keys, group, size));
  if (first == 0) return with_source(copy_of(tensor), source);
  const Slice front = TRY(slice(tensor.source.whole(), tensor.source.offset(), first * bytes));
  const SourcePtr both = concat({std::make_shared<Slice>(front), std::make_shared<Slice>(source)});
  return with_source(copy_of(tensor), slice(both, 0, both->size()));
}

Result<Tensor> with_value_columns(const TensorView& tensor, const Sizes& sizes, bool is_reverse) {
  const uint64_t keys = sizes.linear_key_heads;
  const uint64_t values = sizes.linear_value_heads;
  if (keys == values && keys > 0) return copy_of(tensor);
  const uint64_t size = sizes.linear_value_size;
  const Rows rows = TRY(rows_of(tensor));
  if (rows.unit != tensor.dtype) return failure(Code::unsupported, "columns of quantised weights cannot be moved");
  if (keys == 0 || size == 0 || values % keys != 0 || tensor.shape.size() != 2 || rows.units % size != 0 ||
      rows.units / size != values)
    return does_not_fit(tensor, fmt::format("columns of {} value heads of {}", values, size));
  const uint64_t outer = is_reverse ? values / keys : keys;
  const uint64_t middle = is_reverse ? keys : values / keys;
  return with_source(copy_of(tensor),
                     view(tensor, rows, {0, {rows.count, middle, outer, size}, {rows.units, size, middle * size, 1}}));
}

// A part of each matrix of a tensor of three dimensions.
Result<Tensor> half_of_rows(const TensorView& tensor, uint64_t which) {
  const Rows rows = TRY(rows_of(tensor));
  if (tensor.shape.size() != 3 || tensor.shape[1] % 2 != 0) return does_not_fit(tensor, "[experts, even, columns]");
  Tensor half = copy_of(tensor);
  half.shape[1] /= 2;
  const uint64_t units = half.shape[1] * rows.units;
  return with_source(half, view(tensor, rows, {which * units, {tensor.shape[0], units}, {2 * units, 1}}));
}

Result<Tensor> every_second(const TensorView& tensor, uint64_t first) {
  const Rows rows = TRY(rows_of(tensor));
  if (tensor.shape.size() != 2 || tensor.shape[1] % 2 != 0 || rows.unit != tensor.dtype)
    return does_not_fit(tensor, "[experts, even]");
  Tensor half = copy_of(tensor);
  half.shape[1] /= 2;
  return with_source(half, view(tensor, rows, {first, {tensor.shape[0], tensor.shape[1] / 2}, {tensor.shape[1], 2}}));
}

// Each matrix transposed, of which every `step`-th row from `first` on.
Result<Tensor> transposed(const TensorView& tensor, uint64_t first, uint64_t step) {
  const Rows rows = TRY(rows_of(tensor));
  if (tensor.shape.size() != 3 || tensor.shape[2] % step != 0 || rows.unit != tensor.dtype)
    return does_not_fit(tensor, "[experts, inputs, outputs]");
  const uint64_t inputs = tensor.shape[1];
  const uint64_t outputs = tensor.shape[2];
  Tensor out = copy_of(tensor);
  out.shape = {tensor.shape[0], outputs / step, inputs};
  return with_source(out, view(tensor, rows, {first, out.shape, {inputs * outputs, step, outputs}}));
}

// kv_b_proj [heads * (keys + values), rank]: of each head the first rows, transposed, or the others.
Result<Tensor> part_of_mla(const TensorView& tensor, const Sizes& sizes, bool is_keys) {
  const Rows rows = TRY(rows_of(tensor));
  uint64_t expected = 0;
  const uint64_t of_head = sizes.mla_keys + sizes.mla_values;
  if (tensor.shape.size() != 2 || rows.unit != tensor.dtype || sizes.mla_keys == 0 || sizes.mla_values == 0 ||
      __builtin_mul_overflow(sizes.key_heads, of_head, &expected) || expected != rows.count)
    return does_not_fit(tensor, fmt::format("{} heads of {} rows", sizes.key_heads, of_head));
  const uint64_t rank = rows.units;
  Tensor out = copy_of(tensor);
  if (is_keys) {
    out.shape = {sizes.key_heads, rank, sizes.mla_keys};
    return with_source(out, view(tensor, rows, {0, out.shape, {of_head * rank, 1, rank}}));
  }
  out.shape = {sizes.key_heads, sizes.mla_values, rank};
  return with_source(out, view(tensor, rows, {sizes.mla_keys * rank, out.shape, {of_head * rank, rank, 1}}));
}

Result<Tensor> without_middle(Tensor tensor) {
  if (tensor.shape.size() == 3 && tensor.shape[1] == 1) tensor.shape.erase(tensor.shape.begin() + 1);
  if (tensor.shape.size() != 2) return does_not_fit(tensor, "[channels, 1, width]");
  return tensor;
}

// The rows of queries and keys in front of the values.
uint64_t rows_before_values(const Sizes& sizes) { return 2 * sizes.linear_key_heads * sizes.linear_key_size; }

enum class Direction { to_gguf, to_hub };

// The operations that are their own kind in both directions.
Result<Tensor> reordered(const TensorView& tensor, Op op, const Architecture& architecture, const Sizes& sizes,
                         Direction direction) {
  const bool is_reverse = direction == Direction::to_hub;
  switch (op) {
    case Op::query_heads:
      return architecture.permutes_heads ? permuted(tensor, sizes.heads, is_reverse) : copy_of(tensor);
    case Op::key_heads:
      return architecture.permutes_heads ? permuted(tensor, sizes.key_heads, is_reverse) : copy_of(tensor);
    case Op::value_heads:
      return with_value_heads(tensor, sizes, 0, sizes.linear_value_size, is_reverse);
    case Op::value_head_rows:
    case Op::value_channels:
      return with_value_heads(tensor, sizes, rows_before_values(sizes), sizes.linear_value_size, is_reverse);
    case Op::value_numbers:
    case Op::value_decays:
      return with_value_heads(tensor, sizes, 0, 1, is_reverse);
    case Op::value_columns:
      return with_value_columns(tensor, sizes, is_reverse);
    default:
      return copy_of(tensor);
  }
}

}  // namespace

Tensor copy_of(const TensorView& tensor) {
  Tensor copy;
  copy.name = tensor.name;
  copy.dtype = tensor.dtype;
  copy.stored_dtype = tensor.stored_dtype;
  copy.shape = tensor.shape;
  copy.source = tensor.source;
  return copy;
}

Result<Tensor> rearranged(const TensorView& tensor, Op op, const Architecture& architecture, const Sizes& sizes) {
  switch (op) {
    case Op::first_half:
      return half_of_rows(tensor, 0);
    case Op::second_half:
      return half_of_rows(tensor, 1);
    case Op::even:
      return every_second(tensor, 0);
    case Op::odd:
      return every_second(tensor, 1);
    case Op::transposed:
      return transposed(tensor, 0, 1);
    case Op::transposed_even:
      return transposed(tensor, 0, 2);
    case Op::transposed_odd:
      return transposed(tensor, 1, 2);
    case Op::mla_keys:
      return part_of_mla(tensor, sizes, true);
    case Op::mla_values:
      return part_of_mla(tensor, sizes, false);
    case Op::value_channels: {
      const Tensor flat = TRY(without_middle(copy_of(tensor)));
      return reordered(flat, op, architecture, sizes, Direction::to_gguf);
    }
    default:
      return reordered(tensor, op, architecture, sizes, Direction::to_gguf);
  }
}

Result<Tensor> restored(const TensorView& tensor, Op op, const Architecture& architecture, const Sizes& sizes) {
  Tensor made = TRY(reordered(tensor, op, architecture, sizes, Direction::to_hub));
  if (op != Op::value_channels) return made;
  if (made.shape.size() != 2) return does_not_fit(tensor, "[channels, width]");
  made.shape.insert(made.shape.begin() + 1, 1);
  return made;
}

Result<Tensor> stacked(const std::vector<TensorView>& tensors) {
  Tensor all = copy_of(tensors.front());
  std::vector<SourcePtr> sources;
  for (const TensorView& each : tensors) {
    if (each.source.refused()) return failure(Code::corrupt, fmt::format("tensor {} is refused", quoted(each.name)));
    if (each.dtype != all.dtype || !(each.shape == ShapeView(all.shape)))
      return failure(Code::unsupported,
                     fmt::format("experts {} and {} have other shapes or types", quoted(all.name), quoted(each.name)));
    sources.push_back(std::make_shared<Slice>(each.source));
  }
  all.shape.insert(all.shape.begin(), tensors.size());
  const SourcePtr whole = concat(std::move(sources));
  return with_source(all, slice(whole, 0, whole->size()));
}

}  // namespace weightfs::mapping
