#include "formats/onnx/tensor.h"

#include <fmt/core.h>

#include "formats/common/limits.h"
#include "formats/grouped.h"
#include "formats/onnx/fields.h"
#include "formats/protobuf/dimensions.h"

namespace weightfs::onnx {
namespace {

using protobuf::NumbersField;

constexpr int32_t kExternal = 1;  // TensorProto.DataLocation

// An occurrence of a typed field, if it is one: a number, or a packed chunk.
void add_numbers(StoredTensor& tensor, const Field& field) {
  for (const uint32_t single : {fixed32(tensor::kFloatData), varint(tensor::kInt32Data), varint(tensor::kInt64Data),
                                fixed64(tensor::kDoubleData), varint(tensor::kUint64Data)}) {
    const uint32_t number = single >> 3;
    if (field.tag == bytes(number)) tensor.numbers.at(number).add_chunk(field.bytes);
    if (field.tag == single) tensor.numbers.at(number).add_single();
  }
}

Result<void> add_field(Scanner& scanner, const Field& field, StoredTensor& tensor) {
  switch (field.tag) {
    case tensor::kName:
      tensor.name = TRY(scanner.text(field.bytes, kMaxNameLength));
      return {};
    case tensor::kDataType:
      tensor.data_type = field.int32();
      return {};
    case tensor::kDataLocation:
      tensor.is_external = field.int32() == kExternal;
      return {};
    case tensor::kRawData:
      tensor.raw = field.bytes;
      return {};
    case tensor::kStringData:
      tensor.strings.add(field.bytes);
      return {};
    case tensor::kSegment:
      tensor.problem = "it is a segment of a tensor";
      return {};
    case tensor::kExternalData: {
      const Message entry = TRY(scanner.child(tensor.message, field));
      return read_external_entry(scanner, entry, tensor.place);
    }
    case varint(tensor::kDims):
    case bytes(tensor::kDims):
      return read_dimensions(scanner, field, tensor.shape, tensor.problem);
    default:
      add_numbers(tensor, field);
      return {};
  }
}

Result<Slice> strings_as_lines(const StoredTensor& tensor, const SourcePtr& file) {
  const auto elements = elements_of(tensor.shape);
  if (!elements) return failure(Code::corrupt, "its shape overflows");
  if (tensor.strings.count != *elements)
    return failure(Code::corrupt, fmt::format("{} strings, {} needed", tensor.strings.count, *elements));
  return slice(protobuf::string_lines(file, tensor.message, tensor.strings), 0,
               tensor.strings.bytes + tensor.strings.count);
}

}  // namespace

Result<StoredTensor> read_tensor(Scanner& scanner, Message message) {
  StoredTensor tensor;
  tensor.message = std::move(message);
  tensor.strings.tag = tensor::kStringData;
  Fields fields(scanner, tensor.message);
  while (const auto field = TRY(fields.next())) TRY_VOID(add_field(scanner, *field, tensor));
  return tensor;
}

Result<Slice> inline_bytes(const StoredTensor& tensor, const SourcePtr& file, Scanner& scanner, uint64_t& countable) {
  const ElementType* const type = kElementTypes.find(tensor.data_type);
  if (type == nullptr) {
    if (!tensor.raw) return failure(Code::corrupt, "no data of a known type");
    return slice(file, tensor.raw->begin, tensor.raw->size());
  }
  if (type->code == kStringType) return strings_as_lines(tensor, file);
  const auto size = size_in_bytes(*dtype_of(type), tensor.shape);
  if (!size) return failure(Code::corrupt, "the size of its shape overflows 64 bits");
  // Tools such as TensorRT strip the weights from a model, and keep their names and shapes.
  const bool has_data = tensor.raw ? tensor.raw->size() > 0 : !tensor.numbers.at(type->field).absent();
  if (!has_data && *size > 0)
    return failure(Code::not_found, fmt::format("its values were stripped: no data, {} needed", counted_bytes(*size)));
  if (!tensor.raw) {
    const NumbersField field{tensor.message, type->field, type->wire};
    return protobuf::numbers_as_bytes(file, field, tensor.numbers.at(type->field), *size, type->width, scanner,
                                      countable);
  }
  if (tensor.raw->size() != *size)
    return failure(Code::corrupt, fmt::format("{} bytes of raw data, {} needed", tensor.raw->size(), *size));
  return slice(file, tensor.raw->begin, *size);
}

}  // namespace weightfs::onnx
