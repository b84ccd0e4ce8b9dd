#include "formats/caffe/blob.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "formats/caffe/fields.h"
#include "formats/protobuf/dimensions.h"

namespace weightfs::caffe {
namespace {

using protobuf::fixed32;
using protobuf::fixed64;
using protobuf::NumbersField;

// Adds an occurrence of a field of numbers, if it is one of that field.
void add_numbers(const Field& field, uint32_t number, uint32_t single, protobuf::NumbersLayout& layout) {
  if (field.tag == bytes(number)) layout.add_chunk(field.bytes);
  if (field.tag == single) layout.add_single();
}

// num, channels, height and width of files before 2014.
void set_old_shape(const std::array<int32_t, 4>& sizes, Blob& blob) {
  blob.shape.clear();
  blob.problem.reset();
  for (const int32_t size : sizes) {
    if (size < 0) blob.problem = fmt::format("dimension {}", size);
    blob.shape.push_back(static_cast<uint64_t>(size));
  }
  if (blob.problem) blob.shape.clear();
}

}  // namespace

const DType* Blob::dtype() const {
  if (!doubles.absent()) return dtype_named("float64");
  return raw && floats.absent() ? &kUnknownDType : dtype_named("float32");
}

std::string_view Blob::stored_dtype() const {
  if (!doubles.absent()) return "double";
  return raw && floats.absent() ? "raw" : "float";
}

Result<void> read_shape(Scanner& scanner, const Message& message, Shape& shape, std::optional<std::string>& problem) {
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next()))
    if (field->tag == varint(kDim) || field->tag == bytes(kDim))
      TRY_VOID(protobuf::read_dimensions(scanner, *field, shape, problem));
  return {};
}

Result<Blob> read_blob(Scanner& scanner, Message message) {
  Blob blob;
  blob.message = std::move(message);
  std::optional<std::array<int32_t, 4>> old;
  Fields fields(scanner, blob.message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag >= blob::kNum && field->tag <= blob::kWidth && field->tag == varint(field->number())) {
      if (!old) old.emplace();
      old->at(field->number() - 1) = field->int32();
    }
    if (field->tag == blob::kRawData) blob.raw = field->bytes;
    add_numbers(*field, blob::kData, fixed32(blob::kData), blob.floats);
    add_numbers(*field, blob::kDoubleData, fixed64(blob::kDoubleData), blob.doubles);
    if (field->tag != blob::kShape) continue;
    const Message shape = TRY(scanner.child(blob.message, *field));
    TRY_VOID(read_shape(scanner, shape, blob.shape, blob.problem));
  }
  if (old) set_old_shape(*old, blob);
  return blob;
}

Result<Slice> values_of(const Blob& blob, const SourcePtr& file, Scanner& scanner) {
  if (blob.problem) return failure(Code::corrupt, *blob.problem);
  const DType& dtype = *blob.dtype();
  if (&dtype == &kUnknownDType) return slice(file, blob.raw->begin, blob.raw->size());
  const auto size = size_in_bytes(dtype, blob.shape);
  if (!size) return failure(Code::corrupt, "the size of its shape overflows 64 bits");
  const bool is_double = !blob.doubles.absent();
  const NumbersField field{blob.message, is_double ? blob::kDoubleData : blob::kData,
                           is_double ? WireType::fixed64 : WireType::fixed32};
  uint64_t countable = 0;  // numbers of a fixed size are counted without reading them
  return protobuf::numbers_as_bytes(file, field, is_double ? blob.doubles : blob.floats, *size, dtype.block_bytes,
                                    scanner, countable);
}

}  // namespace weightfs::caffe
