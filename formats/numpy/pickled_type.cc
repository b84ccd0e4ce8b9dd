#include "formats/numpy/pickled_type.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "formats/pickle/escaped.h"

namespace weightfs::numpy {
namespace {

using pickle::Index;
using pickle::Kind;
using pickle::kNoValue;
using pickle::Pickle;

constexpr int kMaxTypeDepth = 16;
constexpr size_t kLongest = 256;      // text of a type, in bytes
constexpr size_t kMaxVisited = 4096;  // types and fields in one type
constexpr uint32_t kMaxAxes = 64;     // of NumPy 2
constexpr uint64_t kSteps = 8;        // the time of a part

tl::unexpected<Error> wrong(std::string_view what) {
  return failure(Code::corrupt, fmt::format("its element type: {}", what));
}

// The parts of numpy.dtype's state, whichever version it has.
struct State {
  char order = 0;
  Index subtype = kNoValue, names = kNoValue, fields = kNoValue, metadata = kNoValue;
  int64_t itemsize = -1;
};

std::string text_of(const Pickle& pickle, Index value) { return pickle::kept_bytes(pickle, value).value_or(""); }

// ([version,] order, subtype, [names,] fields, itemsize, alignment, [flags, [metadata]]). Version 0 has no number, and
// versions 0 and 1 have no names apart from the fields.
Result<State> state_of(const Pickle& pickle, Index value) {
  const std::vector<Index> items = pickle.items(value, 10);
  const size_t begin = items.size() == 5 ? 0 : 1;
  if (items.size() < 5 || items.size() > 9) return wrong("a state of another form");
  const size_t names = items.size() > 6 ? 1 : 0;
  State state;
  const std::string order = text_of(pickle, items[begin]);
  state.order = order.size() == 1 ? order[0] : '\0';
  state.subtype = items[begin + 1];
  if (names != 0) state.names = items[begin + 2];
  state.fields = items[begin + 2 + names];
  const auto size = pickle.integer(items[begin + 3 + names]);
  if (!size || std::string_view("<>|=").find(state.order) == std::string_view::npos || order.empty())
    return wrong("a state of another form");
  state.itemsize = *size;
  if (items.size() == 9) state.metadata = items[8];
  return state;
}

using Sizes = std::vector<uint64_t>;

class TypeReader {
 public:
  TypeReader(const Pickle& pickle, Budget& budget) : pickle_(pickle), budget_(budget) {}

  Result<PickledType> read(Index value) {
    const Typed typed = TRY(type(value, 0));
    return PickledType{typed.type, fields_};
  }

 private:
  struct Structure;
  struct Typed {
    Literal descr;
    ElementType type;
    std::vector<Field> fields = {};
    bool is_subarray = false;  // of plain elements
    ElementType element = {};
    Sizes shape = {};
  };

  Result<Typed> type(Index value, int depth);
  Result<std::string> code(Index argument) const;
  Result<std::string> with_state(std::string text, const State& state) const;
  Result<std::string> unit(Index metadata) const;
  Result<Typed> plain(std::string text) const;
  Result<Typed> structure(const State& state, int depth);
  Result<Typed> subarray(Index subtype, int depth);
  Result<Typed> field(Index parts, int depth, uint64_t& offset);
  std::map<std::string_view, Index> fields_by_name(Index fields) const;
  Result<Sizes> shape_of(Index value) const;

  const Pickle& pickle_;
  Budget& budget_;
  std::vector<Field> fields_;
  size_t visited_ = 0;
};

Result<TypeReader::Typed> TypeReader::type(Index value, int depth) {
  if (depth > kMaxTypeDepth || ++visited_ > kMaxVisited)
    return failure(Code::unsupported, "its element type has too many parts");
  TRY_VOID(budget_.charge(Cost::step, kSteps));
  if (!is_type(pickle_, value) && pickle_.kind(value) != Kind::global) return wrong("not a numpy.dtype");
  if (pickle_.kind(value) == Kind::global) {
    std::string word = TRY(code(value));
    return plain(std::move(word));
  }
  const pickle::Call call = pickle_.call(value);
  const std::string callable = numpy_name(pickle_.global(call.callable));
  if (callable != "numpy.dtype") {
    std::string word = TRY(code(call.callable));
    return plain(std::move(word));
  }
  const std::vector<Index> arguments = pickle_.items(call.arguments, 1);
  if (arguments.empty()) return wrong("numpy.dtype without a type");
  std::string text = TRY(code(arguments[0]));
  if (call.state == kNoValue) return plain(std::move(text));
  const State state = TRY(state_of(pickle_, call.state));
  Typed typed;
  if (pickle_.kind(state.subtype) == Kind::tuple) {
    typed = TRY(subarray(state.subtype, depth));
  } else if (pickle_.kind(state.fields) == Kind::dict ||
             (state.names != kNoValue && pickle_.item_count(state.names) > 0)) {
    typed = TRY(structure(state, depth));
  } else {
    text = TRY(with_state(std::move(text), state));
    typed = TRY(plain(std::move(text)));
  }
  if (depth == 0) fields_ = typed.fields;
  return typed;
}

// A text, or a class whose last word is the type: numpy.int32, ml_dtypes.bfloat16, numpy.dtypes.Float32DType.
Result<std::string> TypeReader::code(Index argument) const {
  if (pickle_.kind(argument) != Kind::global) {
    std::string text = text_of(pickle_, argument);
    if (text.empty() || text.size() > kLongest) return wrong("neither a text nor a class");
    return text;
  }
  std::string word(pickle_.global(argument));
  word = word.substr(word.rfind('.') + 1);
  constexpr std::string_view kClass = "DType";
  if (word.size() > kClass.size() && word.ends_with(kClass)) {
    word.resize(word.size() - kClass.size());
    for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (word == "record") return std::string("V");
  if (word == "str_") return std::string("U");
  if (word == "bytes_") return std::string("S");
  if (word == "object_") return std::string("O");
  return word;
}

Result<std::string> TypeReader::with_state(std::string text, const State& state) const {
  if (!text.empty() && std::string_view("<>|=").find(text[0]) != std::string_view::npos) text.erase(0, 1);
  const char kind = text.empty() ? '\0' : text[0];
  const std::string_view rest = std::string_view(text).substr(std::min<size_t>(1, text.size()));
  const bool has_size = rest.empty() || parse_number<uint64_t>(rest).has_value();
  if ((kind == 'S' || kind == 'a' || kind == 'U' || kind == 'V') && has_size) {
    const int64_t unit = kind == 'U' ? 4 : 1;
    if (state.itemsize < 0 || state.itemsize % unit != 0)
      return wrong(fmt::format("a text of {} bytes", state.itemsize));
    text = fmt::format("{}{}", kind, state.itemsize / unit);
  }
  if ((text == "M8" || text == "m8") && state.metadata != kNoValue) text += TRY(unit(state.metadata));
  return std::string(1, state.order) + text;
}

// ({}, (unit, count, divisor, events))
Result<std::string> TypeReader::unit(Index metadata) const {
  const std::vector<Index> both = pickle_.items(metadata, 2);
  const std::vector<Index> parts = both.size() == 2 ? pickle_.items(both[1], 4) : std::vector<Index>();
  if (parts.size() < 2) return std::string();
  const std::string name = text_of(pickle_, parts[0]);
  const int64_t count = pickle_.integer(parts[1]).value_or(0);
  if (name.empty() || name.size() > 8 || count < 1) return wrong("a date of another form");
  if (name == "generic") return std::string();
  return count == 1 ? fmt::format("[{}]", name) : fmt::format("[{}{}]", count, name);
}

// A type of NumPy, or one of ml_dtypes, which NumPy has no code for.
Result<TypeReader::Typed> TypeReader::plain(std::string text) const {
  Typed typed;
  auto type = element_type(Literal(text));
  if (!type) {
    const bool is_big_endian = text.starts_with('>');
    if (std::string_view("<>|=").find(text[0]) != std::string_view::npos) text.erase(0, 1);
    const DType* const dtype = dtype_named(text);
    if (dtype == nullptr || dtype->block != 1 || dtype->block_bytes == 0) return tl::unexpected(type.error());
    type = ElementType{.dtype = dtype, .bytes = dtype->block_bytes, .text = text};
    if (is_big_endian && dtype->block_bytes > 1) type->swap = dtype->block_bytes;
  }
  typed.type = std::move(*type);
  typed.descr = Literal(std::move(text));
  return typed;
}

Result<Sizes> TypeReader::shape_of(Index value) const {
  Sizes shape;
  const auto one = pickle_.integer(value);
  if (one) {
    if (*one < 0) return wrong("a field of negative size");
    return Sizes{static_cast<uint64_t>(*one)};
  }
  if (pickle_.kind(value) != Kind::tuple || pickle_.item_count(value) > kMaxTypeDepth)
    return wrong("the shape of a field");
  for (const Index item : pickle_.items(value)) {
    const auto size = pickle_.integer(item);
    if (!size || *size < 0) return wrong("the shape of a field");
    shape.push_back(static_cast<uint64_t>(*size));
  }
  return shape;
}

// (type, shape)
Result<TypeReader::Typed> TypeReader::subarray(Index subtype, int depth) {
  const std::vector<Index> parts = pickle_.items(subtype, 3);
  if (parts.size() != 2) return wrong("a subarray that is not a type and a shape");
  Typed typed = TRY(type(parts[0], depth + 1));
  Sizes shape = TRY(shape_of(parts[1]));
  Sequence sizes{Sequence::Kind::tuple, {}};
  for (const uint64_t size : shape) sizes.items.emplace_back(static_cast<int64_t>(size));
  typed.descr = Literal(Sequence{Sequence::Kind::tuple, {std::move(typed.descr), Literal(std::move(sizes))}});
  // NumPy has a subarray only as a field.
  const Literal only{Sequence{Sequence::Kind::tuple, {Literal(std::string("f")), typed.descr}}};
  const ElementType all = TRY(element_type(Literal(Sequence{Sequence::Kind::list, {only}})));
  const bool is_plain = !typed.is_subarray && typed.fields.empty();
  typed.element = std::move(typed.type);
  typed.type =
      ElementType{.bytes = all.bytes, .has_objects = all.has_objects, .text = to_python(typed.descr, kLongest)};
  typed.fields.clear();
  typed.is_subarray = is_plain;
  typed.shape = is_plain ? std::move(shape) : Sizes();
  return typed;
}

// The type of a field, and its offset. `parts`: (type, offset) or (type, offset, title).
Result<TypeReader::Typed> TypeReader::field(Index parts, int depth, uint64_t& offset) {
  const std::vector<Index> items = pickle_.items(parts, 3);
  const auto at = items.size() < 2 ? std::nullopt : pickle_.integer(items[1]);
  if (!at || *at < 0) return wrong("a field without an offset");
  offset = static_cast<uint64_t>(*at);
  return type(items[0], depth + 1);
}

// The fields by name; the last of a name counts, as in Python.
std::map<std::string_view, Index> TypeReader::fields_by_name(Index fields) const {
  std::map<std::string_view, Index> by_name;
  const std::vector<Index> items = pickle_.items(fields, 2 * kMaxVisited);
  for (size_t i = 0; i + 1 < items.size(); i += 2)
    if (const std::string_view name = pickle_.text(items[i]); name.size() <= kLongest)
      by_name.insert_or_assign(name, items[i + 1]);
  return by_name;
}

// What is added to a structure field after field.
struct TypeReader::Structure {
  Typed all;
  Sequence descr{Sequence::Kind::list, {}};
  uint64_t end = 0;
  bool has_form = true;  // as dtype.descr

  void add_gap(uint64_t to) {
    if (!has_form || to <= end) return;
    descr.items.emplace_back(
        Sequence{Sequence::Kind::tuple, {Literal(std::string()), Literal(fmt::format("|V{}", to - end))}});
  }

  void add(const std::string& name, uint64_t offset, Typed typed) {
    all.type.has_objects = all.type.has_objects || typed.type.has_objects;
    has_form = has_form && offset >= end;
    add_gap(offset);
    end = offset + typed.type.bytes;
    Sequence entry{Sequence::Kind::tuple, {Literal(name)}};
    auto* const sub = std::get_if<Sequence>(&typed.descr);
    if (sub != nullptr && sub->kind == Sequence::Kind::tuple) {
      for (Literal& part : sub->items) entry.items.push_back(std::move(part));
    } else {
      entry.items.push_back(typed.descr);
    }
    descr.items.emplace_back(std::move(entry));
    if (all.fields.size() < kMaxFields)
      all.fields.push_back({name, offset, typed.is_subarray ? typed.element : typed.type, std::move(typed.shape)});
  }
};

// As dtype.descr has it: gaps are fields without a name. Overlapping fields have no such form, only their size.
Result<TypeReader::Typed> TypeReader::structure(const State& state, int depth) {
  if (state.itemsize < 0 || state.itemsize > INT32_MAX) return wrong("the size of a structure");
  const auto size = static_cast<uint64_t>(state.itemsize);
  if (state.names == kNoValue) return wrong("a structure without names");
  TRY_VOID(budget_.charge(Cost::step, kSteps * (pickle_.item_count(state.fields) + pickle_.item_count(state.names))));
  const auto fields = fields_by_name(state.fields);
  Structure made;
  for (const Index name : pickle_.items(state.names, kMaxVisited)) {
    const std::string text(pickle_.text(name));
    if (text.size() > kLongest) return failure(Code::unsupported, "a field with a long name");
    const auto found = fields.find(text);
    if (found == fields.end()) return wrong("a name without a field");
    uint64_t offset = 0;
    Typed typed = TRY(field(found->second, depth, offset));
    if (offset > size || typed.type.bytes > size - offset)
      return wrong(fmt::format("field {} is outside of its structure", quoted(text)));
    made.add(text, offset, std::move(typed));
  }
  made.add_gap(size);
  Typed all = std::move(made.all);
  const bool has_objects = all.type.has_objects;
  all.descr = made.has_form ? Literal(std::move(made.descr)) : Literal(fmt::format("|V{}", size));
  all.type = TRY(element_type(all.descr));
  all.type.has_objects = has_objects;
  if (all.type.bytes != size) return wrong("a structure of another size");
  return all;
}

}  // namespace

std::string numpy_name(std::string_view global) {
  constexpr std::string_view kNew = "numpy._core.";  // of NumPy 2
  if (global.starts_with(kNew)) return fmt::format("numpy.core.{}", global.substr(kNew.size()));
  return std::string(global);
}

bool is_type(const Pickle& pickle, Index value) {
  if (pickle.kind(value) != Kind::call) return false;
  const std::string_view callable = pickle.global(pickle.call(value).callable);
  return callable == "numpy.dtype" || callable.starts_with("numpy.dtypes.");
}

Result<Shape> pickled_shape(const Pickle& pickle, Index value) {
  if (const auto one = pickle.integer(value); one && *one >= 0) return Shape{static_cast<uint64_t>(*one)};
  if (pickle.kind(value) != Kind::tuple && pickle.kind(value) != Kind::list)
    return failure(Code::corrupt, "its shape is not a tuple");
  if (pickle.item_count(value) > kMaxAxes)
    return failure(Code::unsupported,
                   fmt::format("{} dimensions, at most {} are read", pickle.item_count(value), kMaxAxes));
  Shape shape;
  for (const Index item : pickle.items(value)) {
    const auto size = pickle.integer(item);
    if (!size || *size < 0) return failure(Code::corrupt, "its shape has a value below 0 or no number");
    shape.push_back(static_cast<uint64_t>(*size));
  }
  return shape;
}

// As numpy computes it: dimensions of 0 do not hide an overflow of the others.
Result<uint64_t> pickled_size(const Shape& shape, uint64_t element) {
  uint64_t all = std::max<uint64_t>(element, 1);
  bool is_empty = element == 0;
  for (const uint64_t size : shape) {
    is_empty = is_empty || size == 0;
    if (__builtin_mul_overflow(all, std::max<uint64_t>(size, 1), &all) || all > INT64_MAX)
      return failure(Code::corrupt, "an array of 2^63 bytes or more");
  }
  return is_empty ? 0 : all;
}

Result<PickledType> pickled_type(const Pickle& pickle, Index value, Budget& budget) {
  return TypeReader(pickle, budget).read(value);
}

}  // namespace weightfs::numpy
