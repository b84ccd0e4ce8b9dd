#include "fs/views/selection.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "formats/float32.h"
#include "fs/views/converted.h"

namespace weightfs::views {

FileLayout::FileLayout(ModelPtr its_model, TypesInFile its_types)
    : model(std::move(its_model)),
      types(std::move(its_types)),
      budget(model->budget != nullptr ? model->budget : std::make_shared<Budget>(std::numeric_limits<uint64_t>::max())),
      charges(*budget) {}

std::string name_in_file(const TensorView& tensor) {
  return tensor.scope.empty() ? std::string(tensor.name) : fmt::format("{}/{}", tensor.scope, tensor.name);
}

namespace {

// Each of these names has a copy of its scope, which may be long, until the file is laid out.
Result<void> charge_scoped_names(const FileLayout& layout) {
  constexpr uint64_t kPasses = 4;  // they are made, compared and sorted
  uint64_t size = 0;
  for (const uint32_t index : layout.tensors)
    if (const TensorView tensor = layout.model->tensors[index]; !tensor.scope.empty())
      size += tensor.scope.size() + 1 + tensor.name.size();
  TRY_VOID(layout.budget->charge(Cost::input, kPasses * size));
  TRY_VOID(layout.budget->charge(Cost::kept, size));
  layout.budget->release(Cost::kept, size);
  return {};
}

}  // namespace

Result<std::vector<NamedTensor>> named_tensors(const FileLayout& layout, StringArena& texts) {
  // A million names are sorted in less.
  TRY_VOID(layout.budget->charge(Cost::step, layout.tensors.size()));
  TRY_VOID(charge_scoped_names(layout));
  std::vector<NamedTensor> named;
  named.reserve(layout.tensors.size());
  for (const uint32_t index : layout.tensors) {
    const TensorView tensor = layout.model->tensors[index];
    named.push_back({tensor.scope.empty() ? tensor.name : texts.add(name_in_file(tensor)), index});
  }
  return named;
}

const DType* TypesInFile::conversion(const TensorView& tensor) const {
  if (types == FileTypes::stored || (types == FileTypes::stored_or_float32 && has_type(tensor))) return nullptr;
  if (!has_numbers(tensor)) return nullptr;
  if (types == FileTypes::float16) return &kFloat16;
  return types == FileTypes::bfloat16 ? &kBfloat16 : &kFloat32;
}

uint64_t size_in_file(const TypesInFile& types, const TensorView& tensor) {
  const DType* const type = types.conversion(tensor);
  return type == nullptr ? tensor.nbytes() : element_count(tensor.shape) * type->block_bytes;
}

SourcePtr bytes_in_file(const Model& model, const TypesInFile& types, size_t tensor) {
  const DType* const type = types.conversion(model.tensors[tensor]);
  if (type != nullptr) return converted(model, tensor, *type, types.overflows);
  return std::make_shared<Slice>(model.tensors[tensor].source);
}

namespace {

// Whether the dimensions that are not 0 have a product that every reader can compute, also of an empty tensor.
bool has_countable_shape(ShapeView shape) {
  uint64_t elements = 1;
  return std::all_of(shape.begin(), shape.end(), [&](uint64_t size) {
    return !__builtin_mul_overflow(elements, std::max<uint64_t>(size, 1), &elements) && elements <= kMaxFileOffset;
  });
}

// Removes all but the first tensor of each name.
Result<void> leave_out_repeated(FileLayout& layout, Warnings& left_out) {
  StringArena texts;
  std::vector<NamedTensor> by_name = TRY(named_tensors(layout, texts));
  std::stable_sort(by_name.begin(), by_name.end());
  std::vector<uint32_t> repeated;
  for (size_t i = 1; i < by_name.size(); ++i) {
    if (by_name[i - 1].name != by_name[i].name) continue;
    left_out.add("tensor {}: another tensor has this name", quoted(by_name[i].name));
    repeated.push_back(by_name[i].tensor);
  }
  std::sort(repeated.begin(), repeated.end());
  std::erase_if(layout.tensors,
                [&](uint32_t tensor) { return std::binary_search(repeated.begin(), repeated.end(), tensor); });
  return {};
}

}  // namespace

Result<std::shared_ptr<FileLayout>> choose_tensors(const ModelPtr& model, const Selection& selection,
                                                   const TypesInFile& types, const Reason& reason,
                                                   RepeatedNames repeated, Warnings& left_out) {
  auto layout = std::make_shared<FileLayout>(model, types);
  std::vector<size_t> all;
  if (!selection.tensors) {
    all.resize(model->tensors.size());
    std::iota(all.begin(), all.end(), size_t{0});
  }
  const std::vector<size_t>& chosen = selection.tensors ? *selection.tensors : all;
  TRY_VOID(layout->charges.charge(Cost::kept, chosen.size() * (sizeof(uint32_t) + sizeof(uint64_t))));
  TRY_VOID(layout->budget->charge(Cost::step, chosen.size() / 2));
  layout->tensors.reserve(chosen.size());
  for (const size_t index : chosen) {
    const TensorView tensor = model->tensors[index];
    std::string why;
    if (tensor.source.refused())
      why = "refused when the container was read";
    else if (size_in_file(types, tensor) > kMaxFileOffset)
      why = "more than 2^53 bytes";
    else if (!has_countable_shape(tensor.shape))
      why = "a shape of more than 2^53 elements";
    else
      why = reason(index, tensor);
    if (why.empty())
      layout->tensors.push_back(static_cast<uint32_t>(index));
    else
      left_out.add("tensor {}: {}", quoted(name_in_file(tensor)), why);
  }
  if (repeated == RepeatedNames::left_out) TRY_VOID(leave_out_repeated(*layout, left_out));
  layout->tensors.shrink_to_fit();
  layout->ends.reserve(layout->tensors.size());
  return layout;
}

Error no_tensors(std::string_view format, const Warnings& left_out) {
  const std::vector<std::string> lines = left_out.lines();
  if (lines.empty()) return {Code::unsupported, fmt::format("{}: there are no tensors", format)};
  return {Code::unsupported,
          fmt::format("no tensor can be written as {}: {}{}", format, lines.front(), lines.size() > 1 ? ", …" : "")};
}

}  // namespace weightfs::views
