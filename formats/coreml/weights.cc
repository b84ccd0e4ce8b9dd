#include "formats/coreml/weights.h"

#include <fmt/core.h>

#include <bit>
#include <utility>

namespace weightfs::coreml {
namespace {

using protobuf::bytes;
using protobuf::Fields;
using protobuf::fixed32;
using protobuf::Message;
using protobuf::NumbersField;
using protobuf::Range;
using protobuf::Scanner;
using protobuf::varint;
using protobuf::WireType;

constexpr uint32_t kFloats = 1;  // the number of the field
constexpr uint32_t kHalves = bytes(2);
constexpr uint32_t kRaw = bytes(30);
constexpr uint32_t kInt8 = bytes(31);
constexpr uint32_t kQuantization = bytes(40);

// QuantizationParams
constexpr uint32_t kBits = varint(1);
constexpr uint32_t kLinear = bytes(101);
constexpr uint32_t kLookupTable = bytes(102);

constexpr uint64_t kByte = 8;  // bits

// The form of the values: their type, the range that has them, and the bits of one.
struct Form {
  std::string_view stored, dtype;
  const std::optional<Range>* range;
  uint64_t bits;
};

// The only form of the values in `weights`.
Result<Form> form_of(const StoredWeights& weights) {
  const bool has_floats = !weights.floats.absent();
  const int forms = has_floats + weights.halves.has_value() + weights.raw.has_value() + weights.int8.has_value();
  if (forms != 1) return failure(Code::corrupt, fmt::format("values of {} forms", forms));
  if (has_floats) return Form{"floatValue", "float32", nullptr, 32};
  if (weights.halves) return Form{"float16Value", "float16", &weights.halves, 16};
  if (weights.int8) return Form{"int8RawValue", "int8", &weights.int8, kByte};
  if (weights.bits == 0 || weights.bits > kByte)
    return failure(Code::corrupt, fmt::format("numbers of {} bits, 1 to 8 expected", weights.bits));
  return Form{"rawValue", weights.bits == kByte ? "uint8" : "", &weights.raw, weights.bits};
}

// How many values there are.
uint64_t count_of(const StoredWeights& weights, const Form& form) {
  if (form.range == nullptr) return weights.floats.single + weights.floats.chunk_bytes / sizeof(float);
  const uint64_t size = (*form.range)->size();
  return form.bits < kByte ? size * kByte / form.bits : size / (form.bits / kByte);
}

std::optional<uint64_t> size_of(ShapeView shape, uint64_t bits) {
  const auto total = elements_of(shape, bits);
  if (!total) return std::nullopt;
  return *total / kByte + (*total % kByte == 0 ? 0 : 1);
}

// The floats of a repeated field of a message, as many as there may be.
Result<Value> floats_in(Scanner& scanner, const Message& message, uint32_t field, size_t most) {
  const NumbersField numbers{message, field, WireType::fixed32};
  const auto layout = TRY(protobuf::read_layout(scanner, numbers));
  const uint64_t count = layout.single + layout.chunk_bytes / sizeof(float);
  if (count > most) return Value(fmt::format("{} numbers", count));
  TRY_VOID(scanner.charge(Cost::value, 1 + count));
  List list;
  Fields fields(scanner, message);
  while (const auto each = TRY(fields.next())) {
    if (each->tag == fixed32(field))
      list.emplace_back(shortest_decimal(std::bit_cast<float>(static_cast<uint32_t>(each->value))));
    if (each->tag != bytes(field)) continue;
    for (uint64_t at = each->bytes.begin; at < each->bytes.end;) {
      const uint64_t number = TRY(scanner.number(at, each->bytes.end, WireType::fixed32));
      list.emplace_back(shortest_decimal(std::bit_cast<float>(static_cast<uint32_t>(number))));
    }
  }
  return Value(std::move(list));
}

}  // namespace

Result<StoredWeights> read_weights(Scanner& scanner, Message message) {
  StoredWeights weights;
  weights.message = std::move(message);
  Fields fields(scanner, weights.message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == bytes(kFloats)) weights.floats.add_chunk(field->bytes);
    if (field->tag == fixed32(kFloats)) weights.floats.add_single();
    if (field->tag == kQuantization) TRY_VOID(scanner.merge(weights.quantization, weights.message, *field));
    if (field->tag != kHalves && field->tag != kRaw && field->tag != kInt8) continue;
    auto& form = field->tag == kHalves ? weights.halves : field->tag == kRaw ? weights.raw : weights.int8;
    form = field->bytes.empty() ? std::nullopt : std::optional(field->bytes);
  }
  Fields parameters(scanner, weights.quantization);
  while (const auto field = TRY(parameters.next()))
    if (field->tag == kBits) weights.bits = field->value;
  return weights;
}

Result<void> place_weights(const StoredWeights& weights, const std::optional<Shape>& shape, const SourcePtr& file,
                           Scanner& scanner, Tensor& tensor) {
  const Form form = TRY(form_of(weights));
  if (!form.dtype.empty()) tensor.dtype = dtype_named(form.dtype);
  tensor.stored_dtype = form.stored;
  tensor.shape = shape ? *shape : Shape{count_of(weights, form)};
  const auto size = size_of(tensor.shape, form.bits);
  if (!size) return failure(Code::corrupt, "the size of its shape overflows 64 bits");
  if (form.range == nullptr) {
    uint64_t countable = 0;  // numbers of a fixed size are counted without reading them
    tensor.source = TRY(protobuf::numbers_as_bytes(file, {weights.message, kFloats, WireType::fixed32}, weights.floats,
                                                   *size, sizeof(float), scanner, countable));
    return {};
  }
  const Range& range = **form.range;
  if (range.size() != *size)
    return failure(Code::corrupt, fmt::format("{} bytes of values, {} needed", range.size(), *size));
  tensor.source = TRY(slice(file, range.begin, *size));
  return {};
}

Result<Map> quantization_of(const StoredWeights& weights, size_t most, Scanner& scanner) {
  Map shown;
  TRY_VOID(scanner.charge(Cost::value, 8));
  shown.append("bits", weights.bits);
  const Message linear = TRY(scanner.message_at(weights.quantization, kLinear));
  const Message table = TRY(scanner.message_at(weights.quantization, kLookupTable));
  if (!linear.absent()) {
    shown.append("scale", TRY(floats_in(scanner, linear, 1, most)));
    shown.append("bias", TRY(floats_in(scanner, linear, 2, most)));
  }
  if (!table.absent()) shown.append("lookup_table", TRY(floats_in(scanner, table, 1, most)));
  return shown;
}

}  // namespace weightfs::coreml
