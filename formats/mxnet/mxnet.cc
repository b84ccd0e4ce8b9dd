// MXNet's .params: a list of arrays, then the list of their names. As NDArray::Load in ndarray.cc of MXNet 1.9 and 2
// reads it.
#include <fmt/core.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/code/list.h"
#include "formats/common/cursor.h"
#include "formats/common/lenient_json.h"
#include "formats/common/limits.h"
#include "formats/common/type_codes.h"
#include "formats/common/warnings.h"
#include "formats/format.h"

namespace weightfs {
namespace mxnet {
namespace {

constexpr std::string_view kMagic("\x12\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);  // kMXAPINDArrayListMagic, reserved

// In front of an array; those of the oldest files begin with their number of dimensions.
constexpr uint32_t kVersion1 = 0xF993FAC8;
constexpr uint32_t kVersion2 = 0xF993FAC9;
constexpr uint32_t kVersion3 = 0xF993FACA;

// mshadow's TypeFlag.
constexpr std::array kTypes = {
    TypeCode{0, "float32", "float32"},    TypeCode{1, "float64", "float64"}, TypeCode{2, "float16", "float16"},
    TypeCode{3, "uint8", "uint8"},        TypeCode{4, "int32", "int32"},     TypeCode{5, "int8", "int8"},
    TypeCode{6, "int64", "int64"},        TypeCode{7, "bool", "bool"},       TypeCode{8, "int16", "int16"},
    TypeCode{9, "uint16", "uint16"},      TypeCode{10, "uint32", "uint32"},  TypeCode{11, "uint64", "uint64"},
    TypeCode{12, "bfloat16", "bfloat16"},
};
constexpr TypeCodes<> kElementTypes(kTypes);

// An array before its name is known.
struct Array {
  const TypeCode* type = nullptr;  // null if the array is none: it has no type and no values
  Shape shape;
  uint64_t begin = 0, size = 0;  // of the values
  bool is_sparse = false;
};

Result<Shape> read_dimensions(Cursor& cursor, uint64_t count, bool is_wide) {
  if (count > kMaxDimensions)
    return failure(Code::unsupported, fmt::format("{} dimensions at byte {}", count, cursor.position()));
  Shape shape;
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t size = is_wide ? TRY(cursor.number<int64_t>()) : int64_t{TRY(cursor.number<uint32_t>())};
    if (size < 0) return failure(Code::corrupt, fmt::format("dimension {}", size));
    shape.push_back(static_cast<uint64_t>(size));
  }
  return shape;
}

// A shape with its number of dimensions in front; nothing if that is -1, or 0 before version 3.
Result<std::optional<Shape>> read_shape(Cursor& cursor, uint32_t version) {
  const auto count = TRY(cursor.number<int32_t>());
  const bool is_none = version == kVersion3 ? count == -1 : count == 0;
  if (is_none) return std::nullopt;
  if (count < 0) return failure(Code::corrupt, fmt::format("{} dimensions", count));
  return TRY(read_dimensions(cursor, static_cast<uint64_t>(count), true));
}

Result<const TypeCode*> read_type(Cursor& cursor) {
  const auto code = TRY(cursor.number<int32_t>());
  if (const TypeCode* const type = kElementTypes.find(code)) return type;
  return failure(Code::unsupported, fmt::format("type {} at byte {}", code, cursor.position() - sizeof(int32_t)));
}

Result<uint64_t> size_of(const TypeCode& type, const Shape& shape) {
  if (const auto size = size_in_bytes(*dtype_of(&type), shape)) return *size;
  return failure(Code::corrupt, "the size of its shape overflows 64 bits");
}

// The device that the array was on: a type and a number.
Result<void> skip_device(Cursor& cursor) { return cursor.skip(2 * sizeof(int32_t)); }

// Skips what a sparse array has in place of values: those that are stored, and one or two lists of their places.
Result<void> skip_sparse(Cursor& cursor, const Array& array, const std::optional<Shape>& stored, int32_t lists,
                         uint32_t version) {
  uint64_t places[2] = {};
  for (int32_t i = 0; i < lists; ++i) {
    const TypeCode* const type = TRY(read_type(cursor));
    const auto shape = TRY(read_shape(cursor, version));
    places[i] = TRY(size_of(*type, shape.value_or(Shape{0})));
  }
  const uint64_t values = TRY(size_of(*array.type, stored.value_or(Shape{0})));
  TRY_VOID(cursor.skip(values));
  for (int32_t i = 0; i < lists; ++i) TRY_VOID(cursor.skip(places[i]));
  return {};
}

Result<Array> read_array(Cursor& cursor) {
  Array array;
  const auto version = TRY(cursor.number<uint32_t>());
  const bool has_storage = version == kVersion2 || version == kVersion3;
  const int32_t storage = has_storage ? TRY(cursor.number<int32_t>()) : 0;  // 1: sparse rows, 2: compressed sparse rows
  if (storage < 0 || storage > 2) return failure(Code::unsupported, fmt::format("storage {}", storage));
  std::optional<Shape> stored, shape;
  if (storage > 0) stored = TRY(read_shape(cursor, version));
  if (has_storage || version == kVersion1)
    shape = TRY(read_shape(cursor, version));
  else if (version > 0)
    shape = TRY(read_dimensions(cursor, version, false));
  if (!shape) return array;
  array.shape = std::move(*shape);
  TRY_VOID(skip_device(cursor));
  array.type = TRY(read_type(cursor));
  array.is_sparse = storage > 0;
  if (array.is_sparse) {
    TRY_VOID(skip_sparse(cursor, array, stored, storage, version));
    return array;
  }
  array.begin = cursor.position();
  array.size = TRY(size_of(*array.type, array.shape));
  TRY_VOID(cursor.skip(array.size));
  return array;
}

// Nodes that run code which the graph only names: a class of Python, or functions at an address in memory. A node may
// have graphs of its own.
void add_custom_nodes(const Value& value, std::string_view path, CodeList& out) {
  if (const auto* const list = std::get_if<List>(&value))
    for (const Value& one : *list) add_custom_nodes(one, path, out);
  const auto* const map = std::get_if<Map>(&value);
  if (map == nullptr) return;
  const std::string_view op = text_in(*map, "op");
  std::string_view type;
  for (const char* const key : {"attrs", "attr", "param"})  // of MXNet 1, 0.9 and before
    if (const auto* const attributes = map->find_as<Map>(key)) type = text_in(*attributes, "op_type");
  if (op == "Custom")
    out.add({fmt::format("custom operator {}", type), std::string(path),
             "when a program that registers the operator runs the graph"});
  else if (op == "_Native" || op == "_NDArray")
    out.add({fmt::format("operator {}", op), std::string(path), "when MXNet runs the graph"});
  for (const auto& [key, one] : *map) add_custom_nodes(one, path, out);
}

class Reader {
 public:
  explicit Reader(const Container& container)
      : container_(container), cursor_(*container.bytes, 0, container.bytes->size()) {}

  Result<Model> read() {
    const std::string magic = TRY(cursor_.text(kMagic.size()));
    if (magic != kMagic) return failure(Code::corrupt, "not a list of arrays");
    const std::vector<Array> arrays = TRY(read_arrays());
    const std::vector<std::string> names = TRY(read_names(arrays.size()));
    for (size_t i = 0; i < arrays.size(); ++i)
      if (arrays[i].type != nullptr) TRY_VOID(add(arrays[i], names.empty() ? fmt::format("tensor_{}", i) : names[i]));
    model_.format = "mxnet";
    model_.parts.push_back({container_.name, Later<SourcePtr>::of(container_.bytes)});
    TRY_VOID(add_structure());
    std::move(warnings_).move_to(model_);
    return std::move(model_);
  }

 private:
  Result<std::vector<Array>> read_arrays() {
    const auto claimed = TRY(cursor_.number<uint64_t>());
    const uint64_t count = TRY(cursor_.bounded(claimed, sizeof(uint32_t)));
    std::vector<Array> arrays;
    for (uint64_t i = 0; i < count; ++i) {
      TRY_VOID(container_.budget->charge(Cost::tensor));
      auto array = read_array(cursor_);
      if (!array) return failure(with_message(array.error(), fmt::format("array {}: {}", i, array.error().message)));
      TRY_VOID(container_.budget->charge(Cost::kept, 2 * sizeof(uint64_t) * array->shape.size()));
      arrays.push_back(std::move(*array));
    }
    return arrays;
  }

  // None, or one for each array.
  Result<std::vector<std::string>> read_names(size_t arrays) {
    const auto claimed = TRY(cursor_.number<uint64_t>());
    const uint64_t count = TRY(cursor_.bounded(claimed, sizeof(uint64_t)));
    if (count != 0 && count != arrays)
      return failure(Code::corrupt, fmt::format("{} names of {} arrays", count, arrays));
    std::vector<std::string> names;
    for (uint64_t i = 0; i < count; ++i) {
      const auto size = TRY(cursor_.number<uint64_t>());
      if (size > kMaxNameLength)
        return failure(Code::unsupported, fmt::format("a name of {} bytes, at most {}", size, kMaxNameLength));
      TRY_VOID(container_.budget->charge(Cost::kept, 2 * size));
      names.push_back(TRY(cursor_.text(size)));
    }
    return names;
  }

  Result<void> add(const Array& array, const std::string& name) {
    Tensor tensor{.name = name,
                  .dtype = dtype_of(array.type),
                  .stored_dtype = array.type->name,
                  .scope = {},
                  .shape = array.shape,
                  .source = {}};
    if (array.is_sparse)
      warnings_.refuse(Code::unsupported, "tensor {}: sparse: refused", quoted(name));
    else
      tensor.source = TRY(slice(container_.bytes, array.begin, array.size));
    model_.tensors.push_back(tensor);
    return {};
  }

  // The graph of "NAME-0000.params" is "NAME-symbol.json" beside it. It may be missing.
  Result<void> add_structure() {
    constexpr std::string_view kEnd = "-0000.params";
    if (container_.folder == nullptr || !container_.name.ends_with(".params") || container_.name.size() <= kEnd.size())
      return {};
    const std::string name = container_.name.substr(0, container_.name.size() - kEnd.size()) + "-symbol.json";
    auto bytes = open_below(container_, name);
    if (!bytes) return may_pass(bytes.error()) ? Result<void>(tl::unexpected(bytes.error())) : Result<void>();
    examine(**bytes, name);
    model_.parts.push_back({.path = name, .source = Later<SourcePtr>::of(std::move(*bytes)), .is_structure = true});
    return {};
  }

  // MXNet may read what is no JSON for parse_small_json(), for one a text with more behind its end.
  void examine(const Source& graph, const std::string& name) {
    Budget budget(graph.size());
    const auto json = parse_small_json(graph, budget);
    CodeList code;
    if (json) {
      add_custom_nodes(*json, name, code);
    } else {
      warnings_.add("{}: {}; its operators are not examined", quoted(name), json.error().message);
      code.add({"operators that are not examined", name, "when MXNet runs the graph"});
    }
    std::move(code).move_to(model_.common);
  }

  const Container& container_;
  Cursor cursor_;
  Model model_;
  Warnings warnings_;
};

}  // namespace
}  // namespace mxnet

Match matches_mxnet(const Probe& probe) { return probe.head.starts_with(mxnet::kMagic) ? Match::yes : Match::no; }

Result<Model> read_mxnet(const Container& container) { return mxnet::Reader(container).read(); }

}  // namespace weightfs
