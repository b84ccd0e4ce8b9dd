#include "formats/computed/module_pieces.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace weightfs::computed {

bool ModulePieces::is_named(size_t tensor, std::string_view end) const {
  const std::string_view name = tensors_.name(tensor);
  const size_t separator = module_.name.empty() ? 0 : 1;
  return name.size() == module_.name.size() + separator + end.size() && name.ends_with(end);
}

std::optional<size_t> ModulePieces::place_of(std::string_view end) const {
  for (const summary::Module::Member& member : module_.members)
    if (is_named(member.tensor, end)) return member.tensor;
  return std::nullopt;
}

bool ModulePieces::has(std::string_view end, TypeNames types) const {
  const auto place = place_of(end);
  return place && std::ranges::find(types, tensors_.dtype(*place)->name) != types.end();
}

ShapeView ModulePieces::shape_of(std::string_view end) const {
  const auto place = place_of(end);
  return place ? tensors_.shape(*place) : ShapeView();
}

Result<TensorView> ModulePieces::take(std::string_view end, TypeNames types) {
  const auto place = place_of(end);
  if (!place) return failure(Code::unsupported, fmt::format("{} is missing", end));
  const auto is_it = [&](const summary::Module::Member& member) { return is_named(member.tensor, end); };
  if (std::ranges::count_if(module_.members, is_it) > 1)
    return failure(Code::unsupported, fmt::format("{} is there more than once", end));
  const TensorView tensor = tensors_[*place];
  if (tensor.source.refused()) return failure(Code::unsupported, fmt::format("{} was refused", end));
  if (!has(end, types) || tensor.dtype->order == ByteOrder::big)
    return failure(other_form(end, tensor, fmt::format("{}", fmt::join(types, " or "))));
  taken_.push_back(*place);
  return tensor;
}

Result<TensorView> ModulePieces::take(std::string_view end, TypeNames types, const Shape& shape) {
  TensorView tensor = TRY(take(end, types));
  if (tensor.shape == ShapeView(shape)) return tensor;
  return failure(other_form(end, tensor, fmt::format("[{}]", fmt::join(shape, ","))));
}

std::vector<size_t> ModulePieces::taken() const {
  std::vector<size_t> all = taken_;
  std::ranges::sort(all);
  return all;
}

std::string form_text(const TensorView& tensor) {
  return fmt::format("{} [{}]", tensor.dtype->name, fmt::join(tensor.shape, ","));
}

Error other_form(std::string_view end, const TensorView& tensor, std::string_view expected) {
  return {Code::unsupported, fmt::format("{} is {}; expected {}", end, form_text(tensor), expected)};
}

}  // namespace weightfs::computed
