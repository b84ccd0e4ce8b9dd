#include "formats/onnx/value_info.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/common/limits.h"
#include "formats/model.h"
#include "formats/onnx/fields.h"
#include "formats/onnx/tensor.h"
#include "formats/onnx/types.h"

namespace weightfs::onnx {
namespace {

Result<Value> dimension(Scanner& scanner, const Message& message) {
  Value out;
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == type::kDimValue) out = static_cast<int64_t>(field->value);
    if (field->tag == type::kDimParam) out = TRY(scanner.text(field->bytes, kMaxNameLength));
  }
  return out;
}

Result<List> shape(Scanner& scanner, const Message& message, Charges& charges) {
  List out;
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != type::kDim) continue;
    if (out.size() == kMaxDimensions) return failure(Code::unsupported, "a value of too many dimensions");
    TRY_VOID(charges.charge(Cost::value));
    const Message child = TRY(scanner.child(message, *field));
    Value size = TRY(dimension(scanner, child));
    out.push_back(std::move(size));
  }
  return out;
}

Result<void> describe_tensor(Scanner& scanner, const Message& message, Charges& charges, Map& out) {
  Message dims;
  int32_t element = 0;
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == type::kElementType) element = field->int32();
    if (field->tag == type::kShape) TRY_VOID(scanner.merge(dims, message, *field));
  }
  const ElementType* const known = kElementTypes.find(element);
  out.set("dtype", known == nullptr ? kElementTypes.name(element) : std::string(known->dtype));
  if (dims.absent()) return {};
  List sizes = TRY(shape(scanner, dims, charges));
  out.set("shape", std::move(sizes));
  return {};
}

Result<void> describe_type(Scanner& scanner, const Message& message, Charges& charges, Map& out) {
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == type::kSequence) out.set("type", "sequence");
    if (field->tag == type::kMap) out.set("type", "map");
    if (field->tag == type::kOptional) out.set("type", "optional");
    if (field->tag == type::kSparseTensor) out.set("type", "sparse tensor");
    if (field->tag != type::kTensor && field->tag != type::kSparseTensor) continue;
    const Message tensor = TRY(scanner.child(message, *field));
    TRY_VOID(describe_tensor(scanner, tensor, charges, out));
  }
  return {};
}

}  // namespace

Result<Map> describe_value(Scanner& scanner, const Message& value, Charges& charges) {
  TRY_VOID(charges.charge(Cost::value, 8));
  TRY_VOID(charges.charge(Cost::kept, value.ranges.empty() ? 0 : value.ranges.front().size()));
  std::string name;
  Map out;
  out.append("name", "");
  Fields fields(scanner, value);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == value_info::kName) name = TRY(scanner.text(field->bytes, kMaxNameLength));
    if (field->tag != value_info::kType) continue;
    const Message type = TRY(scanner.child(value, *field));
    if (const auto described = describe_type(scanner, type, charges, out); !described)
      return failure(described.error().code, fmt::format("value {}: {}", quoted(name), described.error().message));
  }
  out.set("name", std::move(name));
  return out;
}

}  // namespace weightfs::onnx
