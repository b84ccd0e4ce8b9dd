#include "formats/gguf/values.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "base/values/rendering.h"
#include "formats/model.h"

namespace weightfs::gguf {
namespace {

struct TypeRow {
  std::string_view name;
  uint64_t size;  // bytes of a value; 0 when they vary
};

constexpr std::array kValueTypes = {
    TypeRow{"uint8", 1},  TypeRow{"int8", 1},    TypeRow{"uint16", 2},  TypeRow{"int16", 2},  TypeRow{"uint32", 4},
    TypeRow{"int32", 4},  TypeRow{"float32", 4}, TypeRow{"bool", 1},    TypeRow{"string", 0}, TypeRow{"array", 0},
    TypeRow{"uint64", 8}, TypeRow{"int64", 8},   TypeRow{"float64", 8},
};

uint64_t size_of(ValueType type) { return kValueTypes.at(static_cast<size_t>(type)).size; }

Result<ValueType> read_type(Cursor& cursor) {
  const auto number = TRY(cursor.number<uint32_t>());
  if (number >= kValueTypes.size())
    return failure(Code::unsupported, fmt::format("value type {}, 0 to 12 are supported", number));
  return ValueType{number};
}

// An array's head: the type and number of its elements, which are checked to fit.
struct ArrayHead {
  ValueType element;
  uint64_t count;
};

Result<ArrayHead> read_array_head(Cursor& cursor, const Dialect& dialect) {
  const ValueType element = TRY(read_type(cursor));
  const uint64_t count = TRY(read_count(cursor, dialect));
  // The shortest string is a length, the shortest array a type and a count.
  const uint64_t smallest = element == ValueType::array    ? 4 + dialect.count_size()
                            : element == ValueType::string ? dialect.count_size()
                                                           : size_of(element);
  TRY_VOID(cursor.bounded(count, smallest));
  return ArrayHead{element, count};
}

// Calls `use` with the next value of a type of fixed size, as the C++ type of that name.
template <class Use>
Result<void> read_scalar(Cursor& cursor, ValueType type, const Use& use) {
  switch (type) {
    case ValueType::uint8:
      use(TRY(cursor.number<uint8_t>()));
      break;
    case ValueType::int8:
      use(TRY(cursor.number<int8_t>()));
      break;
    case ValueType::uint16:
      use(TRY(cursor.number<uint16_t>()));
      break;
    case ValueType::int16:
      use(TRY(cursor.number<int16_t>()));
      break;
    case ValueType::uint32:
      use(TRY(cursor.number<uint32_t>()));
      break;
    case ValueType::int32:
      use(TRY(cursor.number<int32_t>()));
      break;
    case ValueType::float32:
      use(TRY(cursor.number<float>()));
      break;
    case ValueType::uint64:
      use(TRY(cursor.number<uint64_t>()));
      break;
    case ValueType::int64:
      use(TRY(cursor.number<int64_t>()));
      break;
    case ValueType::float64:
      use(TRY(cursor.number<double>()));
      break;
    default:
      return failure(Code::unsupported, fmt::format("a value of type {} where a number was expected", name_of(type)));
  }
  return {};
}

// Bytes of input that take as long as an element of an array does, however short it is.
constexpr uint64_t kInputPerElement = 16;

// Reads one value, and keeps it as long as it is short.
class ValueReader {
 public:
  ValueReader(Cursor& cursor, const Dialect& dialect, uint64_t& room, Budget& budget)
      : cursor_(cursor), dialect_(dialect), budget_(budget), room_(room), left_(room) {}

  Result<StoredValue> run() {
    stored_.type = stored_.element_type = TRY(read_type(cursor_));
    stored_.begin = cursor_.position();
    Value value = TRY(read(stored_.type, 0));
    stored_.end = cursor_.position();
    if (keep_) {
      stored_.value = std::move(value);
      room_ = left_;
    }
    return std::move(stored_);
  }

 private:
  Result<Value> read(ValueType type, int depth) {
    if (type == ValueType::array) return read_array(depth + 1);
    if (type == ValueType::string) return read_text();
    if (type == ValueType::boolean) {
      const auto byte = TRY(cursor_.number<uint8_t>());
      stored_.has_invalid_bool |= byte > 1;
      return Value(byte != 0);
    }
    Value value;
    TRY_VOID(read_scalar(cursor_, type, [&](auto number) {
      if constexpr (std::is_same_v<decltype(number), float>)
        value = shortest_decimal(number);
      else
        value = number;
    }));
    return value;
  }

  Result<Value> read_text() {
    const uint64_t size = TRY(read_count(cursor_, dialect_));
    if (!take(size)) {
      TRY_VOID(cursor_.skip(size));
      return Value();
    }
    std::string text = TRY(cursor_.text(size));
    stored_.has_invalid_text |= !is_utf8(text);
    return Value(std::move(text));
  }

  Result<Value> read_array(int depth) {
    if (depth > kMaxArrayDepth)
      return failure(Code::unsupported, fmt::format("arrays nested deeper than {}", kMaxArrayDepth));
    const ArrayHead head = TRY(read_array_head(cursor_, dialect_));
    if (depth == 1) stored_.element_type = head.element;
    // No overflow: both are bounded by the file's size in bytes.
    stored_.elements += head.count;
    const bool kept = stored_.elements <= kMaxInlineList && take(head.count * sizeof(Value));
    keep_ &= kept;
    if (!keep_ && size_of(head.element) > 0) {
      TRY_VOID(cursor_.skip(head.count * size_of(head.element)));
      return Value();
    }
    TRY_VOID(budget_.charge(Cost::input, kInputPerElement * head.count));
    List list;
    for (uint64_t i = 0; i < head.count; ++i) {
      Value value = TRY(read(head.element, depth));
      if (keep_)
        list.push_back(std::move(value));
      else
        list.clear();
    }
    return Value(std::move(list));
  }

  // Whether the value is still to be kept once `size` bytes more are.
  bool take(uint64_t size) {
    keep_ &= size <= left_;
    if (keep_) left_ -= size;
    return keep_;
  }

  Cursor& cursor_;
  const Dialect& dialect_;
  Budget& budget_;
  uint64_t& room_;  // of the caller
  uint64_t left_;   // of it
  bool keep_ = true;
  StoredValue stored_{};
};

// Writes values as JSON: an array with one element per line, arrays in it on one line each.
class JsonRenderer {
 public:
  JsonRenderer(Cursor& cursor, const Dialect& dialect, TextSink& out) : cursor_(cursor), dialect_(dialect), out_(out) {}

  Result<void> run(ValueType type) {
    TRY_VOID(write(type, 0));
    out_.append(1, '\n');
    return {};
  }

 private:
  Result<void> write(ValueType type, int depth) {
    if (type == ValueType::array) return write_array(depth + 1);
    if (type == ValueType::string) {
      const uint64_t size = TRY(read_count(cursor_, dialect_));
      const std::string text = TRY(cursor_.text(size));
      append_json_string(out_, text);
      return {};
    }
    if (type == ValueType::boolean) {
      out_.append(TRY(cursor_.number<uint8_t>()) != 0 ? "true" : "false");
      return {};
    }
    return read_scalar(cursor_, type, [&](auto number) { write_number(number); });
  }

  Result<void> write_array(int depth) {
    if (depth > kMaxArrayDepth)
      return failure(Code::unsupported, fmt::format("arrays nested deeper than {}", kMaxArrayDepth));
    const ArrayHead head = TRY(read_array_head(cursor_, dialect_));
    const bool lines = depth == 1 && head.count > 0;
    out_.append(1, '[');
    for (uint64_t i = 0; i < head.count && !out_.stopped(); ++i) {
      out_.append(i == 0 ? (lines ? "\n  " : "") : (lines ? ",\n  " : ", "));
      TRY_VOID(write(head.element, depth));
    }
    out_.append(lines ? "\n]" : "]");
    return {};
  }

  template <class Number>
  void write_number(Number number) {
    if constexpr (std::is_floating_point_v<Number>) {
      if (std::isnan(number)) return out_.append("\"NaN\"");
      if (std::isinf(number)) return out_.append(number > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    }
    std::array<char, 32> text;
    const std::string_view digits(text.data(), std::to_chars(text.begin(), text.end(), number).ptr);
    out_.append(digits);
    // 1.0 is parsed as a float, 1 is not.
    if (std::is_floating_point_v<Number> && digits.find_first_of(".e") == digits.npos) out_.append(".0");
  }

  Cursor& cursor_;
  const Dialect& dialect_;
  TextSink& out_;
};

}  // namespace

std::string_view name_of(ValueType type) { return kValueTypes.at(static_cast<size_t>(type)).name; }

Result<uint64_t> read_count(Cursor& cursor, const Dialect& dialect) {
  if (dialect.version > 1) return cursor.number<uint64_t>();
  return TRY(cursor.number<uint32_t>());
}

Result<void> read_string(Cursor& cursor, const Dialect& dialect, uint64_t longest, std::string& out) {
  const uint64_t size = TRY(read_count(cursor, dialect));
  if (size > longest && size <= cursor.left())
    return failure(Code::corrupt, fmt::format("a name of {} bytes, at most {} are read", size, longest));
  return cursor.read_text(size, out);
}

Result<StoredValue> read_value(Cursor& cursor, const Dialect& dialect, uint64_t& room, Budget& budget) {
  return ValueReader(cursor, dialect, room, budget).run();
}

Result<std::string> render_json(const Source& source, const Dialect& dialect, const StoredValue& stored,
                                Budget& budget) {
  TRY_VOID(budget.charge(Cost::input, 2 * (stored.end - stored.begin)));
  TRY_VOID(budget.charge(Cost::input, 2 * kInputPerElement * stored.elements));
  return rendered(budget, [&](TextSink& text) {
    Cursor cursor(source, stored.begin, stored.end, dialect.order);
    return JsonRenderer(cursor, dialect, text).run(stored.type);
  });
}

}  // namespace weightfs::gguf
