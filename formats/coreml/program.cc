#include "formats/coreml/program.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/code/operators.h"
#include "formats/common/limits.h"
#include "formats/coreml/fields.h"
#include "formats/coreml/types.h"
#include "formats/grouped.h"

namespace weightfs::coreml {
namespace {

using protobuf::NumbersField;

constexpr size_t kMaxOperations = 1024;  // further ones are counted together
constexpr uint64_t kMaxPath = 4096;

// A dimension without a constant size makes the values unknown.
Result<void> read_dimension(Scanner& scanner, const Message& dimension, StoredValue& value) {
  std::optional<uint64_t> size;
  const Message constant = TRY(scanner.message_at(dimension, value::kConstant));
  Fields fields(scanner, constant);
  if (!constant.absent()) size = 0;
  while (const auto field = TRY(fields.next()))
    if (field->tag == value::kSize) size = field->value;
  if (value.shape.size() == kMaxDimensions) value.problem = fmt::format("more than {} dimensions", kMaxDimensions);
  if (!size) value.problem = "a dimension of no constant size";
  if (!value.problem) value.shape.push_back(*size);
  return {};
}

Result<void> read_tensor_type(Scanner& scanner, const Message& type, StoredValue& value) {
  value.is_tensor = true;
  Fields fields(scanner, type);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == value::kDataType) value.data_type = field->int32();
    if (field->tag != value::kDimension) continue;
    const Message dimension = TRY(scanner.child(type, *field));
    TRY_VOID(read_dimension(scanner, dimension, value));
  }
  return {};
}

Result<void> read_blob(Scanner& scanner, const Message& blob, StoredValue& value) {
  Fields fields(scanner, blob);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == value::kBlobFile) value.file = TRY(scanner.text(field->bytes, kMaxPath));
    if (field->tag == value::kBlobOffset) value.offset = field->value;
  }
  return {};
}

// The numbers of an immediate tensor: their encoding, and the dtypes that they can be values of.
struct Numbers {
  uint32_t tag;
  WireType wire;
  std::string_view dtype;  // "": any integer
};

constexpr std::array kNumbers = {
    Numbers{value::kFloats, WireType::fixed32, "float32"},  Numbers{value::kInts, WireType::varint, ""},
    Numbers{value::kBools, WireType::varint, ""},           Numbers{value::kLongInts, WireType::varint, ""},
    Numbers{value::kDoubles, WireType::fixed64, "float64"},
};

bool is_integer(const DType& dtype) {
  return dtype.packed_bits == 0 &&
         (dtype.name == "bool" || dtype.name.starts_with("int") || dtype.name.starts_with("uint"));
}

}  // namespace

Result<StoredValue> read_value(Scanner& scanner, const Message& message) {
  StoredValue value;
  const Message type = TRY(scanner.message_at(message, value::kType));
  const Message tensor_type = TRY(scanner.message_at(type, value::kTensorType));
  if (!tensor_type.absent()) TRY_VOID(read_tensor_type(scanner, tensor_type, value));
  const Message blob = TRY(scanner.message_at(message, value::kBlob));
  if (!blob.absent()) TRY_VOID(read_blob(scanner, blob, value));
  const Message immediate = TRY(scanner.message_at(message, value::kImmediate));
  if (blob.absent()) value.immediate = TRY(scanner.message_at(immediate, value::kImmediateTensor));
  return value;
}

Result<void> ProgramReader::program(const Message& program, const std::string& scope) {
  Fields fields(scanner_, program);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != program::kFunction) continue;
    const Message entry = TRY(scanner_.child(program, *field));
    TRY_VOID(function(entry, scope));
  }
  return {};
}

// The function `main` is the model. Others, and a function for a further opset, are scopes.
Result<void> ProgramReader::function(const Message& entry, const std::string& scope) {
  const std::string name = TRY(scanner_.text_at(entry, entry::kKey, kMaxNameLength));
  const Message body = TRY(scanner_.message_at(entry, entry::kValue));
  std::string inner = name == "main" ? scope : fmt::format("{}{}{}", scope, scope.empty() ? "" : "/", name);
  bool is_first = true;
  Fields fields(scanner_, body);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != program::kSpecialization) continue;
    const Message specialization = TRY(scanner_.child(body, *field));
    const std::string opset = TRY(scanner_.text_at(specialization, entry::kKey, kMaxNameLength));
    const Message code = TRY(scanner_.message_at(specialization, entry::kValue));
    if (!std::exchange(is_first, false)) inner = fmt::format("{}{}{}", scope, scope.empty() ? "" : "/", opset);
    TRY_VOID(container_.budget->charge(Cost::input, inner.size()));
    // Once for all its tensors: a comparison of long names takes time.
    const std::string_view scope_of_tensors = TRY(spellings_.add(inner, *container_.budget));
    TRY_VOID(block(code, scope_of_tensors));
  }
  return {};
}

Result<void> ProgramReader::block(const Message& block, std::string_view scope) {
  Fields fields(scanner_, block);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != program::kOperation) continue;
    const Message child = TRY(scanner_.child(block, *field));
    TRY_VOID(operation(child, scope));
  }
  return {};
}

Result<void> ProgramReader::operation(const Message& operation, std::string_view scope) {
  const std::string type = TRY(scanner_.text_at(operation, operation::kType, kMaxNameLength));
  const Message output = TRY(scanner_.message_at(operation, operation::kOutput));
  const std::string owner = TRY(scanner_.text_at(output, operation::kOutputName, kMaxNameLength));
  const bool is_known = operations_.contains(type) || operations_.size() < kMaxOperations;
  if (!operations_.contains(type)) TRY_VOID(container_.budget->charge(Cost::kept, 256 + type.size()));
  ++operations_[is_known ? type : "others"];
  TRY_VOID(note_custom(operation, type));
  Fields fields(scanner_, operation);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != operation::kAttribute && field->tag != operation::kInput && field->tag != operation::kBlock)
      continue;
    const Message child = TRY(scanner_.child(operation, *field));
    if (field->tag == operation::kBlock) TRY_VOID(block(child, scope));
    if (field->tag == operation::kInput) TRY_VOID(input(child, owner, scope));
    if (field->tag == operation::kAttribute) TRY_VOID(attribute(child, owner, type == "const", scope));
  }
  return {};
}

// The operations of Core ML have plain names: one with a namespace is of another dialect.
Result<void> ProgramReader::note_custom(const Message& operation, const std::string& type) {
  if (type.find_first_of(".:/") != type.npos) code::add_custom_operator(type, code_);
  if (type != "custom_layer") return {};
  std::string class_name;
  Fields fields(scanner_, operation);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != operation::kAttribute) continue;
    const Message entry = TRY(scanner_.child(operation, *field));
    if (TRY(scanner_.text_at(entry, entry::kKey, kMaxNameLength)) != "class_name") continue;
    const Message message = TRY(scanner_.message_at(entry, entry::kValue));
    const StoredValue value = TRY(read_value(scanner_, message));
    const Message texts = TRY(scanner_.message_at(value.immediate, value::kTexts));
    class_name = TRY(scanner_.text_at(texts, protobuf::bytes(value::kValues), kMaxNameLength));
  }
  code::add_class_of_app("custom layer", class_name, code_);
  return {};
}

// The value of a constant has the name of the constant; others are parts of a compressed weight.
Result<void> ProgramReader::attribute(const Message& entry, const std::string& owner, bool is_constant,
                                      std::string_view scope) {
  const std::string key = TRY(scanner_.text_at(entry, entry::kKey, kMaxNameLength));
  if (key == "name") return {};
  TRY_VOID(container_.budget->charge(Cost::input, owner.size()));
  const Message message = TRY(scanner_.message_at(entry, entry::kValue));
  return value(message, is_constant && key == "val" ? owner : fmt::format("{}.{}", owner, key), scope);
}

// An input is usually the name of a constant.
Result<void> ProgramReader::input(const Message& entry, const std::string& owner, std::string_view scope) {
  const Message argument = TRY(scanner_.message_at(entry, entry::kValue));
  const Message binding = TRY(scanner_.message_at(argument, operation::kBinding));
  const Message message = TRY(scanner_.message_at(binding, operation::kBindingValue));
  if (message.absent()) return {};
  const std::string key = TRY(scanner_.text_at(entry, entry::kKey, kMaxNameLength));
  TRY_VOID(container_.budget->charge(Cost::input, owner.size()));
  return value(message, fmt::format("{}.{}", owner, key), scope);
}

// Texts, and values that are not tensors, are no weights.
Result<void> ProgramReader::value(const Message& message, std::string name, std::string_view scope) {
  const StoredValue stored = TRY(read_value(scanner_, message));
  const ElementType* const type = kElementTypes.find(stored.data_type);
  if (!stored.is_tensor || (type == nullptr && stored.file.empty())) return {};
  TRY_VOID(container_.budget->charge(Cost::tensor));
  TRY_VOID(container_.budget->charge(Cost::kept, name.size() + sizeof(uint64_t) * stored.shape.size()));
  Tensor tensor{.name = std::move(name),
                .dtype = dtype_of(type),
                .stored_dtype = {},
                .scope = scope,
                .shape = stored.shape,
                .source = {}};
  tensor.stored_dtype = TRY(spellings_.add(kElementTypes.name(stored.data_type), *container_.budget));
  TRY_VOID(container_.budget->charge(Cost::input, scope.size()));  // it is read with each tensor
  const auto size = size_in_bytes(*tensor.dtype, tensor.shape);
  auto found = stored.problem ? failure(Code::corrupt, *stored.problem)
               : !size        ? failure(Code::corrupt, "its size is unknown, or overflows 64 bits")
                              : bytes(stored, type->blob_type, *size);
  if (!found && !is_permanent(found.error())) return tl::unexpected(found.error());
  if (found)
    tensor.source = std::move(*found);
  else
    warnings_.refuse(found.error().code, "tensor {}: {}: refused", quoted(tensor.name), found.error().message);
  out_.tensors.push_back(tensor);
  return {};
}

Result<Slice> ProgramReader::bytes(const StoredValue& value, uint32_t blob_type, uint64_t size) {
  return value.file.empty() ? immediate(value, size) : blobs_.record(value.file, value.offset, blob_type, size);
}

Result<Slice> ProgramReader::immediate(const StoredValue& value, uint64_t size) {
  const DType& dtype = *dtype_of(kElementTypes.find(value.data_type));
  if (size == 0) return slice(file_, 0, 0);
  const Message raw = TRY(scanner_.message_at(value.immediate, value::kBytes));
  if (!raw.absent()) {
    std::optional<protobuf::Range> found;
    Fields fields(scanner_, raw);
    while (const auto field = TRY(fields.next()))
      if (field->tag == value::kRawValues) found = field->bytes;
    if (!found || found->size() != size)
      return failure(Code::corrupt, fmt::format("{} bytes, {} needed", found ? found->size() : 0, size));
    return slice(file_, found->begin, size);
  }
  for (const Numbers& numbers : kNumbers) {
    Message message = TRY(scanner_.message_at(value.immediate, numbers.tag));
    const NumbersField field{std::move(message), value::kValues, numbers.wire};
    if (field.message.absent()) continue;
    if (numbers.dtype.empty() ? !is_integer(dtype) : dtype.name != numbers.dtype)
      return failure(Code::unsupported, "its values have another type");
    const auto layout = TRY(protobuf::read_layout(scanner_, field));
    return protobuf::numbers_as_bytes(file_, field, layout, size, dtype.block_bytes, scanner_, countable_);
  }
  return failure(Code::corrupt, fmt::format("no values, {} needed", counted_bytes(size)));
}

void ProgramReader::finish(Warnings& warnings) {
  Map operations;
  for (const auto& [type, count] : operations_) operations.append(type, count);
  if (!operations.empty()) out_.metadata.append("operations", std::move(operations));
  std::move(code_).move_to(out_.common);
  warnings.append(warnings_, "");
}

}  // namespace weightfs::coreml
