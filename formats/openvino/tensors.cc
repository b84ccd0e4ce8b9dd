#include "formats/openvino/tensors.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/grouped.h"
#include "formats/openvino/types.h"
#include "formats/tflite/strings.h"

namespace weightfs::openvino {
namespace {

Result<uint64_t> number(std::string_view text, std::string_view what) {
  const auto number = parse_number<uint64_t>(trimmed(text));
  if (number) return *number;
  return failure(Code::corrupt, fmt::format("{} {} is not a number", what, quoted(text)));
}

// "3, 4"; empty for a scalar.
Result<Shape> parse_shape(std::string_view text) {
  Shape shape;
  if (trimmed(text).empty()) return shape;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (shape.size() == kMaxDimensions)
      return failure(Code::unsupported, fmt::format("more than {} dimensions", kMaxDimensions));
    shape.push_back(TRY(number(text.substr(begin, end - begin), "dimension")));
    begin = end + 1;
  }
  return shape;
}

// The file with the extension of `name` replaced, as the reference does.
std::string weights_of(const std::string& name) { return name.substr(0, name.rfind('.')) + ".bin"; }

}  // namespace

Result<Tensors> Tensors::open(const Container& container, Model& model) {
  std::string name = weights_of(container.name);
  Result<SourcePtr> weights = failure(Code::not_found, "no other files in its directory");
  if (container.folder != nullptr) weights = open_below(container, name);
  if (!weights && is_fatal(container, weights.error())) return tl::unexpected(weights.error());
  return Tensors(container, model, std::move(name), std::move(weights));
}

Result<void> Tensors::add(const Constant& constant) {
  TRY_VOID(budget_->charge(Cost::tensor));
  TRY_VOID(budget_->charge(Cost::input, 2 * constant.scope.size()));  // the pool compares it with others
  const size_t dimensions = std::min(constant.shape.value_or("").size() + 1, kMaxDimensions);
  TRY_VOID(budget_->charge(Cost::kept, constant.name.size() + dimensions * sizeof(uint64_t)));
  const auto stored_dtype = TRY(pool_.add(constant.type, *budget_));
  const auto scope = TRY(pool_.add(constant.scope, *budget_));
  Tensor tensor{.name = std::string(constant.name),
                .dtype = dtype_of(constant.type),
                .stored_dtype = stored_dtype,
                .scope = scope,
                .shape = {},
                .source = {}};
  const auto source = place(constant, tensor.shape);
  if (source)
    tensor.source = *source;
  else if (!weights_)
    ++lost_;
  else
    warnings_.refuse(source.error().code, "tensor {}: {}: refused", quoted(constant.name), source.error().message);
  if (source && tensor.dtype->name == "string")
    model_->per_tensor.edit().strings.emplace(model_->tensors.size(),
                                              tflite::later_strings(tensor, budget_, tflite::OffsetsFrom::text));
  model_->tensors.push_back(tensor);
  return {};
}

Result<Slice> Tensors::place(const Constant& constant, Shape& shape) const {
  if (constant.shape) shape = TRY(parse_shape(*constant.shape));
  const uint64_t offset = TRY(number(constant.offset, "offset"));
  const uint64_t size = TRY(number(constant.size, "size"));
  if (!constant.shape) {
    const auto one = size_of(constant.type, {});
    if (!one) return failure(Code::unsupported, fmt::format("type {}", quoted(constant.type)));
    if (size % *one != 0) return failure(Code::corrupt, fmt::format("{} bytes of type {}", size, constant.type));
    shape = {size / *one};
  }
  if (constant.type.empty()) return failure(Code::corrupt, "no type of its elements");
  if (!elements_of(shape)) return failure(Code::corrupt, "the number of its elements overflows 64 bits");
  // The bytes of an unknown type, and of texts, are those that the structure states.
  const bool is_sized = size_of(constant.type, {}).has_value();
  const auto needed = is_sized ? size_of(constant.type, shape) : size;
  if (!needed) return failure(Code::corrupt, "the size of its shape overflows 64 bits");
  if (size < *needed) return failure(Code::corrupt, fmt::format("{} bytes, its shape needs {}", size, *needed));
  const SourcePtr weights = TRY(weights_);
  if (offset > weights->size() || size > weights->size() - offset)
    return failure(Code::corrupt,
                   fmt::format("{} bytes at {}, but {} has {}", size, offset, quoted(name_), weights->size()));
  return slice(weights, offset, *needed);
}

void Tensors::finish() {
  if (weights_) model_->parts.push_back({name_, Later<SourcePtr>::of(*weights_)});
  if (lost_ > 0) {
    warnings_.miss_file(weights_.error().code, "{}: {}; {}", quoted(name_), weights_.error().message,
                        lost_tensors(lost_, "refused"));
    warnings_.lose(weights_.error(), {});
  }
  std::move(warnings_).move_to(*model_);
}

}  // namespace weightfs::openvino
