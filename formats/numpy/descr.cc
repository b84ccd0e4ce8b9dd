#include "formats/numpy/descr.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace weightfs::numpy {
namespace {

// The maximum length of ElementType::text: it is shown once per tensor.
constexpr size_t kMaxText = 1024;

// The maximum size of an element, and the maximum number of elements in a field: a C int, as in NumPy.
constexpr uint64_t kMaxBytes = INT32_MAX;

struct NumberType {
  std::string_view code;   // kind and size in bytes
  std::string_view dtype;  // in the table of dtypes; "" if it has none
  uint32_t swap;           // the bytes of a value
};
constexpr std::array kNumbers = {
    NumberType{"b1", "bool", 0},      NumberType{"i1", "int8", 0},        NumberType{"i2", "int16", 2},
    NumberType{"i4", "int32", 4},     NumberType{"i8", "int64", 8},       NumberType{"u1", "uint8", 0},
    NumberType{"u2", "uint16", 2},    NumberType{"u4", "uint32", 4},      NumberType{"u8", "uint64", 8},
    NumberType{"f2", "float16", 2},   NumberType{"f4", "float32", 4},     NumberType{"f8", "float64", 8},
    NumberType{"c8", "complex64", 4}, NumberType{"c16", "complex128", 8}, NumberType{"f12", "", 0},
    NumberType{"f16", "", 0},         NumberType{"c24", "", 0},           NumberType{"c32", "", 0},
};

// Other names of types that numpy.dtype() accepts, as 64-bit Linux has them.
struct Alias {
  std::string_view name, code;
};
constexpr std::array kAliases = {
    Alias{"?", "b1"},           Alias{"bool", "b1"},      Alias{"bool_", "b1"},       Alias{"bool8", "b1"},
    Alias{"b", "i1"},           Alias{"int8", "i1"},      Alias{"byte", "i1"},        Alias{"h", "i2"},
    Alias{"int16", "i2"},       Alias{"short", "i2"},     Alias{"i", "i4"},           Alias{"int32", "i4"},
    Alias{"intc", "i4"},        Alias{"l", "i8"},         Alias{"q", "i8"},           Alias{"p", "i8"},
    Alias{"int64", "i8"},       Alias{"int", "i8"},       Alias{"int_", "i8"},        Alias{"intp", "i8"},
    Alias{"long", "i8"},        Alias{"longlong", "i8"},  Alias{"B", "u1"},           Alias{"uint8", "u1"},
    Alias{"ubyte", "u1"},       Alias{"H", "u2"},         Alias{"uint16", "u2"},      Alias{"ushort", "u2"},
    Alias{"I", "u4"},           Alias{"uint32", "u4"},    Alias{"uintc", "u4"},       Alias{"L", "u8"},
    Alias{"Q", "u8"},           Alias{"P", "u8"},         Alias{"uint64", "u8"},      Alias{"uint", "u8"},
    Alias{"uintp", "u8"},       Alias{"ulonglong", "u8"}, Alias{"e", "f2"},           Alias{"float16", "f2"},
    Alias{"half", "f2"},        Alias{"f", "f4"},         Alias{"float32", "f4"},     Alias{"single", "f4"},
    Alias{"d", "f8"},           Alias{"float64", "f8"},   Alias{"float", "f8"},       Alias{"float_", "f8"},
    Alias{"double", "f8"},      Alias{"g", "f16"},        Alias{"longdouble", "f16"}, Alias{"F", "c8"},
    Alias{"complex64", "c8"},   Alias{"D", "c16"},        Alias{"complex128", "c16"}, Alias{"complex", "c16"},
    Alias{"G", "c32"},          Alias{"S", "S0"},         Alias{"a", "S0"},           Alias{"bytes", "S0"},
    Alias{"c", "S1"},           Alias{"U", "U0"},         Alias{"str", "U0"},         Alias{"V", "V0"},
    Alias{"void", "V0"},        Alias{"M", "M8"},         Alias{"m", "m8"},           Alias{"datetime64", "M8"},
    Alias{"timedelta64", "m8"}, Alias{"O", "O8"},         Alias{"O4", "O8"},          Alias{"object", "O8"},
};

constexpr std::array<std::string_view, 15> kUnits = {"Y",  "M",  "W",  "D",  "h",  "m",  "s",      "ms",
                                                     "us", "μs", "ns", "ps", "fs", "as", "generic"};

tl::unexpected<Error> unknown(std::string_view type) {
  return failure(Code::corrupt, fmt::format("descr {} is not a type of NumPy", quoted(type)));
}

// The unit of a date: "[D]", "[25s]", "[25s/4]"; "" has none.
bool is_unit(std::string_view text) {
  if (text.empty()) return true;
  if (text.size() < 3 || text.front() != '[' || text.back() != ']') return false;
  text = text.substr(1, text.size() - 2);
  constexpr std::string_view kDigits = "0123456789";
  text.remove_prefix(std::min(text.find_first_not_of(kDigits), text.size()));
  if (const size_t slash = text.find('/'); slash != text.npos) {
    if (!parse_number<uint64_t>(text.substr(slash + 1))) return false;
    text = text.substr(0, slash);
  }
  return std::find(kUnits.begin(), kUnits.end(), text) != kUnits.end();
}

// The bytes of an element of `count` units.
Result<uint64_t> times(uint64_t count, uint64_t unit, std::string_view type) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, unit, &bytes) || bytes > kMaxBytes)
    return failure(Code::corrupt, fmt::format("descr {}: more than {} bytes or elements", quoted(type), kMaxBytes));
  return bytes;
}

Result<ElementType> plain_type(const std::string& text) {
  ElementType type;
  type.text = text.substr(0, kMaxText);
  std::string_view code = text;
  char order = '=';
  if (!code.empty() && std::string_view("<>|=").find(code.front()) != std::string_view::npos) {
    order = code.front();
    code.remove_prefix(1);
  }
  const auto* const alias =
      std::find_if(kAliases.begin(), kAliases.end(), [&](const Alias& a) { return a.name == code; });
  if (alias != kAliases.end()) code = alias->code;
  const auto* const number =
      std::find_if(kNumbers.begin(), kNumbers.end(), [&](const NumberType& n) { return n.code == code; });
  if (number != kNumbers.end()) {
    const DType* const dtype = dtype_named(number->dtype);
    if (dtype != nullptr) type.dtype = dtype;
    if (dtype != nullptr && order == '>') type.swap = number->swap;
    type.bytes = *parse_number<uint64_t>(code.substr(1));
    return type;
  }
  if (code.size() < 2) return unknown(text);
  const char kind = code.front();
  const std::string_view rest = code.substr(1);
  if ((kind == 'M' || kind == 'm') && rest.front() == '8' && is_unit(rest.substr(1))) {
    type.bytes = 8;
    return type;
  }
  const auto size = parse_number<uint64_t>(rest);
  if (!size || std::string_view("SaUVO").find(kind) == std::string_view::npos) return unknown(text);
  type.has_objects = kind == 'O';
  type.bytes = TRY(times(*size, kind == 'U' ? 4 : 1, text));
  return type;
}

// The number of elements in the shape of a field: an integer, or a tuple of them.
Result<uint64_t> elements(const Literal& shape) {
  if (const auto* const size = std::get_if<int64_t>(&shape)) {
    if (*size < 0) return failure(Code::corrupt, fmt::format("descr: a field of {} elements", *size));
    return static_cast<uint64_t>(*size);
  }
  const auto* const sizes = std::get_if<Sequence>(&shape);
  if (sizes == nullptr) return failure(Code::corrupt, "descr: the shape of a field is not a tuple of integers");
  uint64_t all = 1;
  for (const Literal& size : sizes->items) {
    if (!std::holds_alternative<int64_t>(size))
      return failure(Code::corrupt, "descr: the shape of a field is not a tuple of integers");
    const uint64_t count = TRY(elements(size));
    all = TRY(times(all, count, "of a field"));
  }
  return all;
}

// A type of which only the size and the presence of objects are wanted, at any depth of a structure.
struct Layout {
  uint64_t bytes = 0;
  bool has_objects = false;
};

Result<Layout> layout_of(const Literal& descr);

// A field of this shape.
Result<Layout> repeated(Layout layout, const Literal& shape) {
  const uint64_t count = TRY(elements(shape));
  layout.bytes = TRY(times(count, layout.bytes, "of a field"));
  return layout;
}

bool is_name(const Literal& name) {
  if (std::holds_alternative<std::string>(name)) return true;
  const auto* const pair = std::get_if<Sequence>(&name);  // (title, name)
  return pair != nullptr && pair->kind == Sequence::Kind::tuple && pair->items.size() == 2 &&
         std::holds_alternative<std::string>(pair->items[1]);
}

// (name, descr) or (name, descr, shape).
Result<Layout> field_layout(const Literal& field) {
  const auto* const parts = std::get_if<Sequence>(&field);
  if (parts == nullptr || parts->kind != Sequence::Kind::tuple || parts->items.size() < 2 || parts->items.size() > 3 ||
      !is_name(parts->items[0]))
    return failure(Code::corrupt, "descr: a field is not a tuple of name, type and shape");
  const Layout layout = TRY(layout_of(parts->items[1]));
  return parts->items.size() == 3 ? repeated(layout, parts->items[2]) : layout;
}

// The nesting of a literal is bounded, and so is this recursion.
Result<Layout> layout_of(const Literal& descr) {
  if (const auto* const text = std::get_if<std::string>(&descr)) {
    const ElementType type = TRY(plain_type(*text));
    return Layout{type.bytes, type.has_objects};
  }
  const auto* const fields = std::get_if<Sequence>(&descr);
  if (fields == nullptr) return failure(Code::corrupt, "descr is neither a string nor a list of fields");
  if (fields->kind == Sequence::Kind::tuple) {  // (descr, shape)
    if (fields->items.size() != 2) return failure(Code::corrupt, "descr: a tuple is not a type and a shape");
    const Layout layout = TRY(layout_of(fields->items[0]));
    return repeated(layout, fields->items[1]);
  }
  Layout all;
  for (const Literal& field : fields->items) {
    const Layout layout = TRY(field_layout(field));
    all.has_objects = all.has_objects || layout.has_objects;
    if (layout.bytes > kMaxBytes - all.bytes)
      return failure(Code::corrupt, fmt::format("descr: a structure of more than {} bytes", kMaxBytes));
    all.bytes += layout.bytes;
  }
  return all;
}

}  // namespace

Result<ElementType> element_type(const Literal& descr) {
  if (const auto* const text = std::get_if<std::string>(&descr)) return plain_type(*text);
  const auto* const fields = std::get_if<Sequence>(&descr);
  if (fields == nullptr || fields->kind != Sequence::Kind::list)
    return failure(Code::corrupt, "descr is neither a string nor a list of fields");
  const Layout layout = TRY(layout_of(descr));
  ElementType type;
  type.bytes = layout.bytes;
  type.has_objects = layout.has_objects;
  type.text = to_python(descr, kMaxText);
  return type;
}

}  // namespace weightfs::numpy
