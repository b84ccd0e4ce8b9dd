#include "formats/rten/node.h"

#include <fmt/core.h>
#include <rten_generated.h>

#include "base/text.h"

namespace weightfs::rten {
namespace {

// An inline vector: its type, where it begins in the image, and its size.
struct Inline {
  ConstantDataType type;
  const uint8_t* begin;
  uint64_t size;
};

template <class Data>
std::optional<Inline> vector_of(ConstantDataType type, uint64_t element, const Data* table) {
  if (table == nullptr || table->data() == nullptr) return std::nullopt;
  return Inline{type, table->data()->Data(), table->data()->size() * element};
}

std::optional<Inline> inline_vector(const ConstantNode& node) {
  switch (node.data_type()) {
    case ConstantData::FloatData:
      return vector_of(ConstantDataType::Float32, sizeof(float), node.data_as_FloatData());
    case ConstantData::Int32Data:
      return vector_of(ConstantDataType::Int32, sizeof(int32_t), node.data_as_Int32Data());
    case ConstantData::Int8Data:
      return vector_of(ConstantDataType::Int8, sizeof(int8_t), node.data_as_Int8Data());
    case ConstantData::UInt8Data:
      return vector_of(ConstantDataType::UInt8, sizeof(uint8_t), node.data_as_UInt8Data());
    default:
      return std::nullopt;
  }
}

std::string unknown(uint64_t number) { return fmt::format("unknown({})", number); }

// The rows of both enums of types, which differ in order and in spelling.
const DType& dtype_of(ConstantDataType type) {
  switch (type) {
    case ConstantDataType::Int32:
      return *dtype_named("int32");
    case ConstantDataType::Float32:
      return *dtype_named("float32");
    case ConstantDataType::Int8:
      return *dtype_named("int8");
    case ConstantDataType::UInt8:
      return *dtype_named("uint8");
  }
  return kUnknownDType;
}

Value value_dtype(std::optional<DataType> type) {
  if (!type) return nullptr;
  switch (*type) {
    case DataType::Int32:
      return "int32";
    case DataType::Float:
      return "float32";
    case DataType::Int8:
      return "int8";
    case DataType::UInt8:
      return "uint8";
  }
  return unknown(static_cast<uint8_t>(*type));
}

Result<Range> external_range(uint64_t data_offset, uint64_t size, const Sections& sections) {
  if (!sections.tensors) return failure(Code::corrupt, "has a data_offset, and a version 1 file has no tensor section");
  uint64_t begin = 0;
  if (__builtin_add_overflow(*sections.tensors, data_offset, &begin) || begin > sections.file_size ||
      size > sections.file_size - begin)
    return failure(
        Code::corrupt,
        fmt::format("{} bytes at offset {} of the tensor section, which begins at {}, are not inside the file's {}",
                    size, data_offset, *sections.tensors, sections.file_size));
  return Range{begin, size};
}

Result<Range> inline_range(const Inline& vector, uint64_t size, const StructureImage& image, const Sections& sections) {
  if (vector.size != size)
    return failure(Code::corrupt, fmt::format("has {} bytes of data, and its shape needs {}", vector.size, size));
  return Range{sections.model_offset + image.position(vector.begin), size};
}

Result<Range> range_of(const ConstantNode& node, const Constant& constant, const std::optional<Inline>& vector,
                       const StructureImage& image, const Sections& sections) {
  if (const auto* shape = node.shape(); shape != nullptr && shape->size() > kMaxDimensions)
    return failure(Code::unsupported, fmt::format("has {} dimensions, more than {}", shape->size(), kMaxDimensions));
  if (!constant.external && !vector) return failure(Code::corrupt, "has neither data nor a data_offset");
  if (constant.dtype == &kUnknownDType)
    return failure(
        Code::unsupported,
        fmt::format("has {}", constant.stored_dtype.empty() ? "no dtype" : "dtype " + constant.stored_dtype));
  const auto size = size_in_bytes(*constant.dtype, constant.shape);
  if (!size) return failure(Code::corrupt, "has a shape of more than 2^64 bytes");
  return constant.external ? external_range(*node.data_offset(), *size, sections)
                           : inline_range(*vector, *size, image, sections);
}

Value name_or_null(const flatbuffers::String* string) {
  return string == nullptr ? Value(nullptr) : Value(string->string_view());
}

Value dimensions_of(const flatbuffers::Vector<flatbuffers::Offset<Dim>>* dimensions) {
  if (dimensions == nullptr) return nullptr;
  List out;
  for (const Dim* dimension : *dimensions)
    out.push_back(dimension->name() != nullptr ? name_or_null(dimension->name()) : Value(dimension->value()));
  return out;
}

Shape shape_of(const flatbuffers::Vector<uint32_t>* dimensions) {
  if (dimensions == nullptr || dimensions->size() > kMaxDimensions) return {};
  return Shape(dimensions->begin(), dimensions->end());
}

void add_constant(Map& out, const Constant& constant) {
  out.append("dtype", constant.dtype->name);
  out.append("shape", List(constant.shape.begin(), constant.shape.end()));
  out.append("storage", constant.external ? "external" : "inline");
  if (!constant.bytes) return out.append("problem", constant.bytes.error().message);
  out.append("offset", constant.bytes->offset);
  out.append("nbytes", constant.bytes->size);
}

void add_value(Map& out, const ValueNode& node) {
  out.append("dtype", value_dtype(node.dtype()));
  out.append("shape", dimensions_of(node.shape()));
}

// A negative number marks an omitted input or output.
std::optional<std::string> problem_of(const OperatorNode& node, uint64_t id, uint64_t node_count) {
  if (*EnumNameOperatorType(node.type()) == '\0') return fmt::format("is an operator {}", operator_name(node.type()));
  if (node.attrs() != nullptr && *EnumNameOperatorAttrs(node.attrs_type()) == '\0')
    return fmt::format("has attributes of kind {}", unknown(static_cast<uint8_t>(node.attrs_type())));
  const auto at_least = [](const flatbuffers::Vector<int32_t>* numbers, uint64_t bound) -> std::optional<int32_t> {
    if (numbers == nullptr) return std::nullopt;
    for (const int32_t number : *numbers)
      if (number >= 0 && static_cast<uint64_t>(number) >= bound) return number;
    return std::nullopt;
  };
  if (const auto input = at_least(node.inputs(), id))
    return fmt::format("has input {}, which is not before it", *input);
  if (const auto output = at_least(node.outputs(), node_count))
    return fmt::format("has output {}, which is not one of the graph's {} nodes", *output, node_count);
  return std::nullopt;
}

}  // namespace

Constant read_constant(const ConstantNode& node, const StructureImage& image, const Sections& sections) {
  const bool external = node.data_offset().has_value();
  const auto vector = inline_vector(node);
  const auto inline_type = vector ? std::optional(vector->type) : std::nullopt;
  const auto type = external ? node.dtype() : inline_type;
  Constant constant{.stored_dtype = "",
                    .dtype = type ? &dtype_of(*type) : &kUnknownDType,
                    .shape = shape_of(node.shape()),
                    .external = external,
                    .bytes = Range{}};
  if (type) constant.stored_dtype = EnumNameConstantDataType(*type);
  if (type && constant.stored_dtype.empty()) constant.stored_dtype = unknown(static_cast<uint16_t>(*type));
  constant.bytes = range_of(node, constant, vector, image, sections);
  return constant;
}

std::string operator_name(OperatorType type) {
  const std::string name = EnumNameOperatorType(type);
  return name.empty() ? unknown(static_cast<uint8_t>(type)) : name;
}

std::optional<std::string> problem_of(const Node& node, uint64_t id, uint64_t node_count) {
  if (const auto* op = node.data_as_OperatorNode()) return problem_of(*op, id, node_count);
  const std::string kind = kind_of(node);
  return kind == "constant" || kind == "value" ? std::nullopt : std::optional("is of kind " + kind);
}

std::string kind_of(const Node& node) {
  if (node.data_as_ConstantNode() != nullptr) return "constant";
  if (node.data_as_ValueNode() != nullptr) return "value";
  if (node.data_as_OperatorNode() != nullptr) return "operator";
  return unknown(static_cast<uint8_t>(node.data_type()));
}

Map describe(const Node& node, uint64_t id, const StructureImage& image, const Sections& sections) {
  Map out;
  out.append("id", id);
  out.append("name", name_or_null(node.name()));
  out.append("kind", kind_of(node));
  if (const auto* constant = node.data_as_ConstantNode()) add_constant(out, read_constant(*constant, image, sections));
  if (const auto* value = node.data_as_ValueNode()) add_value(out, *value);
  if (const auto* op = node.data_as_OperatorNode()) out.append("op", operator_name(op->type()));
  return out;
}

std::vector<const Node*> nodes_of(const Graph& graph) {
  const auto* nodes = graph.nodes();
  return nodes == nullptr ? std::vector<const Node*>{} : std::vector<const Node*>(nodes->begin(), nodes->end());
}

}  // namespace weightfs::rten
