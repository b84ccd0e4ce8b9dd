#include "formats/hdf5/attributes.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/text.h"
#include "formats/hdf5/btree.h"

namespace weightfs::hdf5 {
namespace {

constexpr uint8_t kAttributesByName = 8;  // the type of the B-tree of an object with many attributes

// A type or an extent within an attribute, which may be shared.
Message embedded(MessageType type, bool shared, std::string_view data) { return {type, shared, 0, std::string(data)}; }

Result<Attribute> read_attribute(Metadata& metadata, std::string_view message, uint64_t address) {
  constexpr uint64_t kSharedType = 1, kSharedSpace = 2;
  Fields fields(message, metadata.sizes());
  const uint64_t version = TRY(fields.number(1));
  if (version < 1 || version > 3) return failure(Code::unsupported, fmt::format("an attribute of version {}", version));
  const uint64_t stored_flags = TRY(fields.number(1));
  const uint64_t flags = version == 1 ? 0 : stored_flags;
  const uint64_t name_size = TRY(fields.number(2));
  const uint64_t type_size = TRY(fields.number(2));
  const uint64_t space_size = TRY(fields.number(2));
  if (version == 3) TRY_VOID(fields.skip(1));
  const auto field = [&](uint64_t size) { return fields.text(version == 1 ? (size + 7) / 8 * 8 : size); };
  Attribute attribute;
  const auto name = TRY(field(name_size));
  attribute.name = name.substr(0, name.find('\0'));
  const auto type = TRY(field(type_size));
  attribute.type = TRY(read_type_of(metadata, embedded(MessageType::datatype, (flags & kSharedType) != 0, type)));
  const auto space = TRY(field(space_size));
  const Message own =
      TRY(resolve_shared(metadata, embedded(MessageType::dataspace, (flags & kSharedSpace) != 0, space)));
  Fields in_space(own.data, metadata.sizes());
  attribute.space = TRY(read_dataspace(in_space));
  const auto size = attribute.space.is_null ? 0 : elements_of(attribute.space.dimensions, attribute.type.size);
  if (!size) return failure(Code::corrupt, "an attribute of more than 2^64 bytes");
  attribute.address = address == 0 ? 0 : address + fields.position();
  attribute.data = TRY(fields.text(*size));
  return attribute;
}

Result<void> read_dense(Metadata& metadata, const Message& info,
                        const std::function<Result<void>(const HeapObject&)>& add) {
  constexpr uint64_t kHasOrder = 1, kIdSize = 8;
  Fields fields(info.data, metadata.sizes());
  TRY_VOID(fields.skip(1));
  if ((TRY(fields.number(1)) & kHasOrder) != 0) TRY_VOID(fields.skip(2));
  const uint64_t heap_address = TRY(fields.address());
  const uint64_t tree = TRY(fields.address());
  if (heap_address == kUndefined || tree == kUndefined) return {};
  FractalHeap heap = TRY(FractalHeap::open(metadata, heap_address));
  return for_each_record(metadata, tree, kAttributesByName, [&](std::string_view record) -> Result<void> {
    return add(TRY(heap.object(record.substr(0, std::min<size_t>(record.size(), kIdSize)))));
  });
}

Value number_of(std::string_view bytes, const DType& dtype) {
  const uint64_t bits = little_endian(bytes);
  const std::string_view name = dtype.name;
  if (name == "bool") return bits != 0;
  if (name == "float64") return std::bit_cast<double>(bits);
  if (name == "float32") return shortest_decimal(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  if (name == "float16") {
    const auto exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
    const double sign = (bits >> 15) != 0 ? -1 : 1;
    if (exponent == 31) return sign * (mantissa == 0 ? HUGE_VAL : std::nan(""));
    return sign * std::ldexp(exponent == 0 ? mantissa : mantissa + 1024, std::max(exponent, 1) - 25);
  }
  if (name.starts_with("uint")) return bits;
  if (!name.starts_with("int")) return nullptr;
  const auto unused = 64 - 8 * static_cast<int>(bytes.size());
  return static_cast<int64_t>(bits << unused) >> unused;
}

bool is_number(const Type& type) {
  const std::string_view name = type.dtype->name;
  return name == "bool" || name == "float64" || name == "float32" || name == "float16" || name.starts_with("int") ||
         name.starts_with("uint");
}

Result<std::string> text_element(GlobalHeap& heap, const Type& type, std::string_view bytes) {
  if (type.points_elsewhere) return TRY(variable_text(heap, bytes)).bytes;
  return std::string(without_padding(bytes, type.padding));
}

Result<Value> element_of(GlobalHeap& heap, const Type& type, std::string_view bytes) {
  if (type.is_text) return TRY(text_element(heap, type, bytes));
  std::string number(bytes);
  if (type.swap > 0) std::ranges::reverse(number);
  return number_of(number, *type.dtype);
}

// The elements from `at` on in lists, by the dimensions from `depth` on.
Result<Value> nest(const Shape& dimensions, size_t depth, std::vector<Value>& elements, size_t& at) {
  if (depth == dimensions.size()) return std::move(elements[at++]);
  List list;
  for (uint64_t i = 0; i < dimensions[depth]; ++i) list.push_back(TRY(nest(dimensions, depth + 1, elements, at)));
  return list;
}

Value summary_of(const Attribute& attribute) {
  Map summary;
  summary.append("type", attribute.type.name);
  summary.append("count", elements_of(attribute.space.dimensions).value_or(0));
  return summary;
}

// The dimensions of the attribute, then those of the array that each of its elements is.
Shape shape_of(const Attribute& attribute) {
  Shape shape = attribute.space.dimensions;
  shape.insert(shape.end(), attribute.type.dimensions.begin(), attribute.type.dimensions.end());
  return shape;
}

}  // namespace

Result<std::vector<Attribute>> read_attributes(Metadata& metadata, const Object& object, std::string_view object_name,
                                               Warnings& warnings) {
  std::vector<Attribute> attributes;
  const auto add = [&](std::string_view message, uint64_t address) -> Result<void> {
    TRY_VOID(metadata.charge(Cost::step));
    auto attribute = read_attribute(metadata, message, address);
    if (!attribute && !is_about_the_bytes(attribute.error())) return tl::unexpected(attribute.error());
    if (attribute)
      attributes.push_back(std::move(*attribute));
    else
      warnings.add("{}: an attribute cannot be read: {}", quoted(object_name), attribute.error().message);
    return {};
  };
  for (const Message& message : object.messages) {
    if (message.type == MessageType::attribute) {
      if (message.shared)
        warnings.add("{}: an attribute is shared, which is not supported", quoted(object_name));
      else
        TRY_VOID(add(message.data, message.address));
    }
    if (message.type != MessageType::attribute_info) continue;
    const auto dense =
        read_dense(metadata, message, [&](const HeapObject& one) { return add(one.bytes, one.address); });
    if (!dense && !is_about_the_bytes(dense.error())) return tl::unexpected(dense.error());
    if (!dense) warnings.add("{}: attributes cannot be read: {}", quoted(object_name), dense.error().message);
  }
  return attributes;
}

std::string_view without_padding(std::string_view bytes, Padding padding) {
  if (padding == Padding::terminated) return bytes.substr(0, bytes.find('\0'));
  const size_t last = bytes.find_last_not_of(padding == Padding::zeros ? '\0' : ' ');
  return bytes.substr(0, last == bytes.npos ? 0 : last + 1);
}

// Its length, the address of a global heap collection, and the index of an object in it.
Result<Text> variable_text(GlobalHeap& heap, std::string_view data) {
  Fields fields(data, heap.metadata().sizes());
  const uint64_t size = TRY(fields.number(4));
  const uint64_t address = TRY(fields.address());
  const uint64_t index = TRY(fields.number(4));
  if (size == 0 || address == kUndefined || address == 0) return Text{};
  HeapObject object = TRY(heap.object(address, index));
  if (object.bytes.size() < size)
    return failure(Code::corrupt, fmt::format("a text of {} bytes, {} are stored", size, object.bytes.size()));
  object.bytes.resize(size);
  object.bytes.resize(without_padding(object.bytes, Padding::zeros).size());
  return Text{object.address, std::move(object.bytes)};
}

Result<std::vector<std::string>> texts_of(GlobalHeap& heap, const Type& type, const Source& bytes) {
  constexpr uint64_t kStep = 64 * 1024;
  std::vector<std::string> texts;
  const uint64_t size = type.value_size;
  if (size == 0) return texts;
  const uint64_t step = std::max<uint64_t>(kStep / size, 1) * size;
  for (uint64_t at = 0; at < bytes.size(); at += step) {
    const uint64_t length = std::min(step, bytes.size() - at);
    TRY_VOID(heap.metadata().charge(Cost::input, length));
    if (size > kStep)
      TRY_VOID(heap.metadata().charge(Cost::kept, size));  // chunks that are not stored can be that long
    const std::string block = TRY(read_text(bytes, at, length));
    for (uint64_t i = 0; i < block.size(); i += size) {
      texts.push_back(to_utf8(TRY(text_element(heap, type, std::string_view(block).substr(i, size)))));
      TRY_VOID(heap.metadata().charge(Cost::value));
      TRY_VOID(heap.metadata().charge(Cost::kept, texts.back().size()));
    }
  }
  return texts;
}

Result<std::optional<Text>> text_of(GlobalHeap& heap, const Attribute& attribute) {
  const Type& type = attribute.type;
  if (!type.is_text || attribute.space.is_null || elements_of(shape_of(attribute)) != 1) return std::nullopt;
  if (type.points_elsewhere) return TRY(variable_text(heap, attribute.data));
  return Text{attribute.address, std::string(without_padding(attribute.data, type.padding))};
}

Result<Value> value_of(GlobalHeap& heap, const Attribute& attribute) {
  Metadata& metadata = heap.metadata();
  if (attribute.space.is_null) return nullptr;
  const Type& type = attribute.type;
  const Shape dimensions = shape_of(attribute);
  const uint64_t count = elements_of(dimensions).value_or(0);
  const bool is_shown = type.value_size > 0 && (type.is_text || is_number(type));
  if (!is_shown || count > kMaxInlineList || dimensions.size() > 2 * kMaxRank) return summary_of(attribute);
  if (count == 0) return List{};
  TRY_VOID(metadata.charge(Cost::value, count + dimensions.size()));
  std::vector<Value> elements;
  for (uint64_t i = 0; i < count; ++i) {
    const auto bytes = std::string_view(attribute.data).substr(i * type.value_size, type.value_size);
    elements.push_back(TRY(element_of(heap, type, bytes)));
    if (const auto* text = std::get_if<std::string>(&elements.back()))
      TRY_VOID(metadata.charge(Cost::kept, text->size()));
  }
  size_t at = 0;
  return nest(dimensions, 0, elements, at);
}

}  // namespace weightfs::hdf5
