#include <algorithm>
#include <sstream>

#include "base/text.h"
#include "base/value.h"

// toml++ keeps its tables as std::map: keys come out sorted, in one order for one content.
#include <toml++/toml.h>

namespace weightfs {
namespace {

// toml++ 3.3 writes a key without quotes that has line breaks, tabs or single quotes and is bare otherwise. Such a key
// gets a mark behind it, a character that no bare key has; it is taken out of the finished text.
struct Marking {
  std::string mark;
  bool needed = false;
};

toml::table as_table(const Map& map, Marking& marking);
toml::array as_array(const List& list, Marking& marking);

// Calls `add` with the toml++ form of `value`, or not at all for null.
template <class Add>
void convert(const Value& value, Marking& marking, const Add& add) {
  struct Visit {
    Marking& marking;
    const Add& add;
    void operator()(std::nullptr_t) const {}
    void operator()(bool b) const { add(b); }
    void operator()(int64_t n) const { add(n); }
    void operator()(uint64_t n) const {
      if (n <= static_cast<uint64_t>(INT64_MAX)) return add(static_cast<int64_t>(n));
      add(std::to_string(n));
    }
    void operator()(double n) const { add(n); }
    void operator()(const std::string& text) const { add(to_utf8(text)); }
    void operator()(const List& list) const { add(as_array(list, marking)); }
    void operator()(const Map& map) const { add(as_table(map, marking)); }
  };
  std::visit(Visit{marking, add}, value);
}

toml::array as_array(const List& list, Marking& marking) {
  toml::array out;
  for (const Value& value : list) {
    const size_t before = out.size();
    convert(value, marking, [&](auto&& item) { out.push_back(std::forward<decltype(item)>(item)); });
    if (out.size() == before) out.push_back(toml::table{});
  }
  return out;
}

std::string as_key(const std::string& name, Marking& marking) {
  const std::string key = to_utf8_key(name);
  if (key.find_first_of("\n\t'") == key.npos) return key;
  marking.needed = true;
  return key + marking.mark;
}

toml::table as_table(const Map& map, Marking& marking) {
  toml::table out;
  for (const auto& [name, value] : map) {
    const std::string key = as_key(name, marking);
    convert(value, marking, [&](auto&& item) { out.insert_or_assign(key, std::forward<decltype(item)>(item)); });
  }
  return out;
}

std::string formatted(const Map& map, Marking& marking) {
  const toml::table table = as_table(map, marking);
  std::ostringstream out;
  // Basic strings on one line can say every text. Literal ones cannot, and toml++ 3.3 starts multi-line ones without
  // the line break that readers take off, so that they lose one of the text's own.
  constexpr auto kPlain = toml::format_flags::allow_literal_strings | toml::format_flags::allow_multi_line_strings;
  out << toml::toml_formatter{table, toml::toml_formatter::default_flags & ~kPlain};
  std::string text = std::move(out).str();
  if (!text.empty()) text += '\n';
  return text;
}

// The first private-use character (U+E000 to U+F8FF) that `text` does not have, in UTF-8.
std::string mark_for(const std::string& text) {
  std::string mark;
  for (int c = 0xE000; c <= 0xF8FF; ++c) {
    mark = {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
            static_cast<char>(0x80 | (c & 0x3F))};
    if (text.find(mark) == text.npos) break;
  }
  return mark;
}

Value from_toml(const toml::node& node);

List list_of(const toml::array& array) {
  List out;
  out.reserve(array.size());
  for (const toml::node& item : array) out.push_back(from_toml(item));
  return out;
}

Map map_of(const toml::table& table) {
  Map out;
  for (const auto& [key, value] : table) out.append(std::string(key.str()), from_toml(value));
  return out;
}

// toml++ bounds the depth (TOML_MAX_NESTED_VALUES, 256).
Value from_toml(const toml::node& node) {
  if (const auto* table = node.as_table()) return map_of(*table);
  if (const auto* array = node.as_array()) return list_of(*array);
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  std::ostringstream out;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_chronological<decltype(value)>) out << value.get();
  });
  return std::move(out).str();
}

}  // namespace

Result<Map> parse_toml(std::string_view text) {
  const auto may_begin_a_value = [](char c) { return c == ',' || c == '[' || c == '{' || c == '='; };
  const auto most = std::count_if(text.begin(), text.end(), may_begin_a_value);
  if (most > static_cast<std::ptrdiff_t>(kMostTomlValues))
    return failure(Code::unsupported, str("TOML of up to ", most, " values, at most ", kMostTomlValues, " are read"));
  try {
    return map_of(toml::parse(text));
  } catch (const toml::parse_error& error) {
    // toml++ quotes what it met, which may be anything.
    std::string reason;
    for (const char c : to_utf8(error.description()))
      reason += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
    return failure(Code::corrupt, str("line ", error.source().begin.line, ": not TOML: ", reason));
  } catch (const std::exception& error) {
    return failure(Code::corrupt, str("not TOML: ", error.what()));
  }
}

std::string to_toml(const Map& map) {
  Marking marking;
  const std::string text = formatted(map, marking);
  if (!marking.needed) return text;
  marking.mark = mark_for(text);
  const std::string marked = formatted(map, marking);
  std::string out;
  for (size_t begin = 0, end = 0; begin <= marked.size(); begin = end + marking.mark.size()) {
    end = std::min(marked.find(marking.mark, begin), marked.size());
    out.append(marked, begin, end - begin);
  }
  return out;
}

}  // namespace weightfs
