#include "formats/mapping/operations/joined.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/common/strided.h"
#include "formats/mapping/operations/numbers.h"

namespace weightfs::mapping {
namespace {

Error do_not_fit(const TensorView& a, const TensorView& b) {
  return {Code::unsupported,
          fmt::format("tensors {} and {} do not have the shapes of two parts of one", quoted(a.name), quoted(b.name))};
}

// The tensor with elements that can be moved one by one.
Result<Tensor> in_elements(const TensorView& tensor) {
  Tensor copy = copy_of(tensor);
  if (tensor.dtype->block == 1 && !tensor.source.refused()) return copy;
  return with_numbers(std::move(copy), Arithmetic::none, GgufType::float32);
}

// Two tensors of one type and, if it matters, of one shape, one behind the other.
struct Pair {
  Tensor first;
  Slice both;
};

Result<Pair> pair_of(const TensorView& a, const TensorView& b) {
  if (!(a.shape == b.shape)) return failure(do_not_fit(a, b));
  Tensor first = TRY(in_elements(a));
  const Tensor second = TRY(in_elements(b));
  if (first.dtype != second.dtype) return failure(do_not_fit(a, b));
  const SourcePtr both = concat({std::make_shared<Slice>(first.source), std::make_shared<Slice>(second.source)});
  Slice whole = TRY(slice(both, 0, both->size()));
  return Pair{std::move(first), std::move(whole)};
}

}  // namespace

Result<Tensor> joined_mla(const TensorView& keys, const TensorView& values) {
  Tensor k = TRY(in_elements(keys));
  const Tensor v = TRY(in_elements(values));
  const bool fits = k.shape.size() == 3 && v.shape.size() == 3 && k.shape[0] == v.shape[0] &&
                    k.shape[1] == v.shape[2] && k.dtype == v.dtype && k.shape[0] > 0;
  if (!fits) return failure(do_not_fit(keys, values));
  const uint64_t heads = k.shape[0];
  const uint64_t rank = k.shape[1];
  const uint64_t size = k.shape[2];
  const Slice turned = TRY(strided(k.source, 0, *k.dtype, {heads, size, rank}, {rank * size, 1, size}));
  const auto all = std::make_shared<Slice>(turned);
  std::vector<SourcePtr> parts;
  for (uint64_t head = 0; head < heads; ++head) {
    const uint64_t of_keys = turned.size() / heads;
    const uint64_t of_values = v.nbytes() / heads;
    parts.push_back(std::make_shared<Slice>(TRY(slice(all, head * of_keys, of_keys))));
    parts.push_back(
        std::make_shared<Slice>(TRY(slice(v.source.whole(), v.source.offset() + head * of_values, of_values))));
  }
  const SourcePtr whole = concat(std::move(parts));
  k.shape = {heads * (size + v.shape[1]), rank};
  k.source = TRY(slice(whole, 0, whole->size()));
  return k;
}

Result<Tensor> alternating(const TensorView& even, const TensorView& odd) {
  if (even.shape.size() != 2) return failure(do_not_fit(even, odd));
  auto [made, both] = TRY(pair_of(even, odd));
  const uint64_t experts = even.shape[0];
  const uint64_t size = even.shape[1];
  made.source = TRY(strided(both, 0, *made.dtype, {experts, size, 2}, {size, 1, experts * size}));
  made.shape = {experts, 2 * size};
  return made;
}

Result<Tensor> alternating_transposed(const TensorView& even, const TensorView& odd) {
  if (even.shape.size() != 3) return failure(do_not_fit(even, odd));
  auto [made, both] = TRY(pair_of(even, odd));
  const uint64_t experts = even.shape[0];
  const uint64_t outputs = even.shape[1];
  const uint64_t inputs = even.shape[2];
  made.source = TRY(strided(both, 0, *made.dtype, {experts, inputs, outputs, 2},
                            {outputs * inputs, 1, inputs, experts * outputs * inputs}));
  made.shape = {experts, inputs, 2 * outputs};
  return made;
}

Result<Tensor> transposed_again(const TensorView& tensor) {
  Tensor made = TRY(in_elements(tensor));
  if (made.shape.size() != 3) return failure(do_not_fit(tensor, tensor));
  const Shape shape = made.shape;
  made.shape = {shape[0], shape[2], shape[1]};
  made.source = TRY(strided(made.source, 0, *made.dtype, made.shape, {shape[1] * shape[2], 1, shape[2]}));
  return made;
}

}  // namespace weightfs::mapping
