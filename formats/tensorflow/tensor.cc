#include "formats/tensorflow/tensor.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "formats/common/limits.h"
#include "formats/common/strided.h"

namespace weightfs::tensorflow {
namespace {

using protobuf::NumbersField;
using protobuf::NumbersLayout;

// The memory of values that are computed on read.
constexpr uint64_t kComputed = 1024;

constexpr std::array kNumberTags = {
    fixed32(tensor::kFloat), protobuf::fixed64(tensor::kDouble),
    varint(tensor::kInt),    fixed32(tensor::kComplex64),
    varint(tensor::kInt64),  varint(tensor::kBool),
    varint(tensor::kHalf),   protobuf::fixed64(tensor::kComplex128),
    varint(tensor::kUint32), varint(tensor::kUint64),
};

// An occurrence of a typed field, if it is one: a number, or a packed chunk.
void add_numbers(StoredTensor& tensor, const Field& field) {
  for (const uint32_t single : kNumberTags) {
    const uint32_t number = single >> 3;
    if (field.tag == bytes(number)) tensor.numbers.at(number).add_chunk(field.bytes);
    if (field.tag == single) tensor.numbers.at(number).add_single();
  }
}

// The first bytes of an array of elements, and their number.
struct Values {
  uint64_t count = 0;
  Slice bytes;
};

// Reads the values of one tensor.
class ValueReader {
 public:
  ValueReader(const StoredTensor& stored, const ElementType& type, Scanner& scanner, TensorFile& file)
      : stored_(stored), type_(type), dtype_(*dtype_of(&type)), scanner_(scanner), file_(file) {}

  Result<Slice> read(const Shape& shape) {
    if (type_.is_text()) return strings(shape);
    const auto size = size_in_bytes(dtype_, shape);
    if (!size) return failure(Code::corrupt, "the size of its shape overflows 64 bits");
    const uint64_t width = dtype_.block_bytes;
    if (!stored_.content.empty()) return content(*size);
    const Values values = TRY(type_.wire == WireType::bytes ? float8() : numbers(*size / width));
    if (values.count > *size / width)
      return failure(Code::corrupt, fmt::format("{} values, its shape has {}", values.count, *size / width));
    if (values.count == *size / width) return values.bytes;
    return filled(values, *size);
  }

 private:
  Result<Slice> strings(const Shape& shape) {
    const auto elements = elements_of(shape);
    if (!elements) return failure(Code::corrupt, "its shape overflows");
    if (stored_.strings.count != *elements)
      return failure(Code::corrupt, fmt::format("{} strings, {} needed", stored_.strings.count, *elements));
    return slice(protobuf::string_lines(file_.bytes, stored_.message, stored_.strings), 0,
                 stored_.strings.bytes + stored_.strings.count);
  }

  Result<Slice> content(uint64_t size) {
    if (stored_.content.size() != size)
      return failure(Code::corrupt, fmt::format("{} bytes of content, {} needed", stored_.content.size(), size));
    return slice(file_.bytes, stored_.content.begin, size);
  }

  Result<Values> float8() {
    const Slice bytes = TRY(slice(file_.bytes, stored_.float8.begin, stored_.float8.size()));
    return Values{bytes.size() / dtype_.block_bytes, bytes};
  }

  // `elements`: as many as the shape has.
  Result<Values> numbers(uint64_t elements) {
    const NumbersLayout& layout = stored_.numbers.at(type_.field);
    const NumbersField field{stored_.message, type_.field, type_.wire};
    const uint64_t per_element = dtype_.block_bytes / type_.width;
    const uint64_t count = TRY(counted(field, layout, elements * per_element));
    if (count % per_element != 0) return failure(Code::corrupt, fmt::format("{} numbers for complex values", count));
    if (count / per_element > elements) return Values{count / per_element, {}};
    uint64_t none = 0;  // they are counted
    const Slice bytes =
        TRY(protobuf::numbers_as_bytes(file_.bytes, field, layout, count * type_.width, type_.width, scanner_, none));
    return Values{count / per_element, bytes};
  }

  // The number of numbers. Of many varints it is assumed if it is possible, and checked by those who read them.
  Result<uint64_t> counted(const NumbersField& field, const NumbersLayout& layout, uint64_t assumed) {
    if (layout.chunk_bytes == 0) return layout.single;
    if (type_.wire != WireType::varint) {
      const uint64_t size = type_.wire == WireType::fixed32 ? 4 : 8;
      if (layout.chunk_bytes % size != 0)
        return failure(Code::corrupt, fmt::format("{} bytes of packed numbers", layout.chunk_bytes));
      return layout.single + layout.chunk_bytes / size;
    }
    if (layout.chunk_bytes > file_.countable && layout.can_have(assumed, WireType::varint)) return assumed;
    file_.countable -= std::min(layout.chunk_bytes, file_.countable);
    return protobuf::count_numbers(scanner_, field);
  }

  // The values, then the last one again and again.
  Result<Slice> filled(const Values& values, uint64_t size) {
    if (size > kMaxExpanded)
      return failure(Code::unsupported, fmt::format("{} bytes that repeat {} values, at most {} are served", size,
                                                    values.count, kMaxExpanded));
    const uint64_t width = dtype_.block_bytes;
    const Slice zero = TRY(slice(in_memory(std::string(width, '\0')), 0, width));
    const Slice last = values.count == 0
                           ? zero
                           : TRY(slice(std::make_shared<const Slice>(values.bytes), (values.count - 1) * width, width));
    const uint64_t missing = size / width - values.count;
    const Slice rest = TRY(strided(last, 0, dtype_, {missing}, {0}));
    TRY_VOID(charge_gathering(*file_.budget, rest, last));
    TRY_VOID(file_.budget->charge(Cost::kept, kComputed));
    if (values.count == 0) return rest;
    return slice(concat({std::make_shared<const Slice>(values.bytes), std::make_shared<const Slice>(rest)}), 0, size);
  }

  const StoredTensor& stored_;
  const ElementType& type_;
  const DType& dtype_;
  Scanner& scanner_;
  TensorFile& file_;
};

}  // namespace

Result<StoredTensor> read_tensor(Scanner& scanner, Message message) {
  StoredTensor out;
  out.message = std::move(message);
  out.strings.tag = tensor::kString;
  Message shape;
  Fields fields(scanner, out.message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == tensor::kDataType) out.data_type = static_cast<uint32_t>(field->value);
    if (field->tag == tensor::kShape) TRY_VOID(scanner.merge(shape, out.message, *field));
    if (field->tag == tensor::kContent) out.content = field->bytes;
    if (field->tag == bytes(tensor::kFloat8)) out.float8 = field->bytes;
    if (field->tag == tensor::kString) out.strings.add(field->bytes);
    add_numbers(out, *field);
  }
  out.shape = TRY(read_shape(scanner, shape));
  return out;
}

Result<Slice> values_of(const StoredTensor& stored, const ElementType& type, const Shape& shape, Scanner& scanner,
                        TensorFile& file) {
  return ValueReader(stored, type, scanner, file).read(shape);
}

}  // namespace weightfs::tensorflow
