// Paddle's .pdiparams: the parameters of an inference model, one after another, without names, number or magic number.
// As dense_tensor_serialize.cc of Paddle 3 writes them.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/common/type_codes.h"
#include "formats/format.h"
#include "formats/grouped.h"
#include "formats/paddle/names.h"
#include "formats/protobuf/scanner.h"

namespace weightfs {
namespace paddle {
namespace {

using protobuf::Fields;
using protobuf::Message;
using protobuf::Range;
using protobuf::Scanner;
using protobuf::WireType;

// A description has a type and dimensions, of up to 11 bytes each.
constexpr uint64_t kMaxDescription = 16 * 1024;

constexpr uint32_t kDataType = protobuf::varint(1);
constexpr uint32_t kDim = protobuf::varint(2);
constexpr uint32_t kPackedDims = protobuf::bytes(2);

// VarType.Type of framework.proto.
constexpr std::array kTypes = {
    TypeCode{0, "BOOL", "bool"},      TypeCode{1, "INT16", "int16"},          TypeCode{2, "INT32", "int32"},
    TypeCode{3, "INT64", "int64"},    TypeCode{4, "FP16", "float16"},         TypeCode{5, "FP32", "float32"},
    TypeCode{6, "FP64", "float64"},   TypeCode{20, "UINT8", "uint8"},         TypeCode{21, "INT8", "int8"},
    TypeCode{22, "BF16", "bfloat16"}, TypeCode{23, "COMPLEX64", "complex64"}, TypeCode{24, "COMPLEX128", "complex128"},
};
constexpr TypeCodes<> kElementTypes(kTypes);

// A tensor of the file: its description, and the offset of its data.
struct Record {
  const TypeCode* type = nullptr;
  Shape shape;
  uint64_t data = 0;
};

Result<void> expect_zero(Scanner& scanner, uint64_t& at, uint64_t end, std::string_view what) {
  const uint64_t begin = at;
  const uint64_t version = TRY(scanner.number(at, end, WireType::fixed32));
  if (version == 0) return {};
  return failure(Code::unsupported, fmt::format("{} {} at byte {}, 0 expected", what, version, begin));
}

// The levels of detail, which say where sequences begin: they are not shown.
Result<void> skip_levels(Scanner& scanner, uint64_t& at, uint64_t end) {
  const uint64_t levels = TRY(scanner.number(at, end, WireType::fixed64));
  if (levels > (end - at) / sizeof(uint64_t))
    return failure(Code::corrupt, fmt::format("{} levels of detail at byte {}", levels, at));
  for (uint64_t i = 0; i < levels; ++i) {
    const uint64_t size = TRY(scanner.number(at, end, WireType::fixed64));
    if (size > end - at) return failure(Code::corrupt, fmt::format("a level of {} bytes at byte {}", size, at));
    at += size;
  }
  return {};
}

Result<void> add_dimension(uint64_t size, Shape& shape) {
  if (static_cast<int64_t>(size) < 0)
    return failure(Code::corrupt, fmt::format("dimension {}", static_cast<int64_t>(size)));
  if (shape.size() == kMaxDimensions)
    return failure(Code::unsupported, fmt::format("more than {} dimensions", kMaxDimensions));
  shape.push_back(size);
  return {};
}

Result<void> describe(Scanner& scanner, const Range& range, Record& record) {
  const Message description{{range}, 0};
  int64_t type = -1;
  Fields fields(scanner, description);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == kDataType) type = static_cast<int64_t>(field->value);
    if (field->tag == kDim) TRY_VOID(add_dimension(field->value, record.shape));
    if (field->tag != kPackedDims) continue;
    for (uint64_t at = field->bytes.begin; at < field->bytes.end;) {
      const uint64_t size = TRY(scanner.number(at, field->bytes.end, WireType::varint));
      TRY_VOID(add_dimension(size, record.shape));
    }
  }
  record.type = kElementTypes.find(type);
  if (record.type == nullptr) return failure(Code::unsupported, fmt::format("type {}", type));
  return {};
}

Result<Record> read_record(Scanner& scanner, uint64_t& at, uint64_t end) {
  TRY_VOID(expect_zero(scanner, at, end, "version"));
  TRY_VOID(skip_levels(scanner, at, end));
  TRY_VOID(expect_zero(scanner, at, end, "tensor version"));
  const uint64_t size = TRY(scanner.number(at, end, WireType::fixed32));
  if (size > kMaxDescription || size > end - at)
    return failure(Code::corrupt, fmt::format("a description of {} bytes at byte {}", static_cast<int32_t>(size), at));
  Record record;
  TRY_VOID(describe(scanner, {at, at + size}, record));
  at += size;
  record.data = at;
  return record;
}

class Reader {
 public:
  explicit Reader(const Container& container) : container_(container) {}

  Result<Model> read() {
    TRY_VOID(read_tensors());
    TRY_VOID(name_tensors());
    model_.format = "paddle";
    model_.parts.insert(model_.parts.begin(), {container_.name, Later<SourcePtr>::of(container_.bytes)});
    std::move(warnings_).move_to(model_);
    return std::move(model_);
  }

 private:
  Result<void> read_tensors() {
    Scanner scanner(*container_.bytes, container_.budget.get());
    const uint64_t end = container_.bytes->size();
    if (end == 0) return failure(Code::corrupt, "no tensors");
    for (uint64_t at = 0; at < end;) {
      const auto about = [i = model_.tensors.size()](const Error& error) {
        return Error{error.code, fmt::format("tensor {}: {}", i, error.message)};
      };
      const Record record = TRY(read_record(scanner, at, end).map_error(about));
      const DType* const dtype = dtype_of(record.type);
      const auto size = size_in_bytes(*dtype, record.shape);
      if (!size) return tl::unexpected(about({Code::corrupt, "the size of its shape overflows 64 bits"}));
      TRY_VOID(container_.budget->charge(Cost::tensor));
      TRY_VOID(container_.budget->charge(Cost::kept, 16 + sizeof(uint64_t) * record.shape.size()));
      Tensor tensor{.name = fmt::format("tensor_{}", model_.tensors.size()),
                    .dtype = dtype,
                    .stored_dtype = record.type->name,
                    .scope = {},
                    .shape = record.shape,
                    .source = {}};
      const bool is_whole = *size <= end - at;
      if (is_whole)
        tensor.source = TRY(slice(container_.bytes, at, *size));
      else
        warnings_.refuse(Code::corrupt, "{}: {} needed, {} left: refused", tensor.name, counted_bytes(*size), end - at);
      if (!is_whole) warnings_.add_short_by(*size - (end - at));
      at = is_whole ? at + *size : end;
      model_.tensors.push_back(tensor);
    }
    return {};
  }

  Result<void> name_tensors() {
    Names found = TRY(read_names(container_, warnings_));
    std::move(found.code).move_to(model_.common);
    if (found.bytes == nullptr) return {};
    model_.parts.push_back({.path = found.program, .source = Later<SourcePtr>::of(found.bytes), .is_structure = true});
    const uint64_t count = found.names.size();
    if (count == model_.tensors.size())
      for (size_t i = 0; i < count; ++i) rename(i, found.names[i]);
    else if (count > model_.tensors.size())
      warnings_.miss_tensors(count - model_.tensors.size(), Code::corrupt,
                             "{} names {} parameters, the file has {}; they are shown without names",
                             quoted(found.program), count, model_.tensors.size());
    else if (count > 0)
      warnings_.add("{} names {} parameters, the file has {}; they are shown without names", quoted(found.program),
                    count, model_.tensors.size());
    return {};
  }

  void rename(size_t i, const std::string& name) {
    TensorView tensor = model_.tensors[i];
    tensor.name = name;
    model_.tensors.replace(i, tensor);
  }

  const Container& container_;
  Model model_;
  Warnings warnings_;
};

}  // namespace
}  // namespace paddle

// The first record: two versions of 0, and a plausible description. Programs write no levels of detail for parameters.
Match matches_paddle(const Probe& probe) {
  constexpr size_t kBeforeDescription = 20;
  if (probe.head.size() < kBeforeDescription + 2) return Match::no;
  if (probe.head.find_first_not_of('\0') != kBeforeDescription - 4) return Match::no;
  const auto size = static_cast<uint8_t>(probe.head[kBeforeDescription - 4]);
  const bool is_short = size >= 2 && probe.head.substr(kBeforeDescription - 3, 3) == std::string_view("\0\0\0", 3);
  return is_short && probe.head[kBeforeDescription] == '\x08' ? Match::maybe : Match::no;
}

Result<Model> read_paddle(const Container& container) { return paddle::Reader(container).read(); }

}  // namespace weightfs
