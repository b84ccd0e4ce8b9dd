#include <sstream>

#include "base/text.h"
#include "base/value.h"

// toml++ keeps its tables as std::map: keys come out sorted, in one order for one content.
#include <toml++/toml.h>

namespace weightfs {
namespace {

toml::table as_table(const Map& map);
toml::array as_array(const List& list);

// Calls `add` with the toml++ form of `value`, or not at all for null.
template <class Add>
void convert(const Value& value, const Add& add) {
  struct Visit {
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
    void operator()(const List& list) const { add(as_array(list)); }
    void operator()(const Map& map) const { add(as_table(map)); }
  };
  std::visit(Visit{add}, value);
}

toml::array as_array(const List& list) {
  toml::array out;
  for (const Value& value : list) {
    const size_t before = out.size();
    convert(value, [&](auto&& item) { out.push_back(std::forward<decltype(item)>(item)); });
    if (out.size() == before) out.push_back(toml::table{});
  }
  return out;
}

toml::table as_table(const Map& map) {
  toml::table out;
  for (const auto& [key, value] : map)
    convert(value, [&, &name = key](auto&& item) { out.insert_or_assign(to_utf8(name), std::forward<decltype(item)>(item)); });
  return out;
}

}  // namespace

std::string to_toml(const Map& map) {
  const toml::table table = as_table(map);
  std::ostringstream out;
  // Literal and multi-line strings are left to readers' taste elsewhere; basic strings can say every text.
  out << toml::toml_formatter{table, toml::toml_formatter::default_flags & ~toml::format_flags::allow_literal_strings};
  std::string text = std::move(out).str();
  if (!text.empty()) text += '\n';
  return text;
}

}  // namespace weightfs
