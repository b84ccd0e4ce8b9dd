// Values as TOML, in the layout of toml++ 3.3: keys sorted, tables under their headers and indented by four, arrays of
// more than 120 columns with a line for each element.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "base/values/rendering.h"
#include "base/values/value.h"

namespace weightfs {
namespace {

constexpr uint64_t kColumns = 120;  // an array that is as long is broken into lines

const Map& empty_map() {
  static const Map empty;
  return empty;
}

// An array of tables has a header for each element. A null in a list is an empty table.
bool is_table(const Value& value) {
  return std::holds_alternative<Map>(value) || std::holds_alternative<std::nullptr_t>(value);
}

bool is_array_of_tables(const Value& value) {
  const auto* list = std::get_if<List>(&value);
  return list != nullptr && !list->empty() && std::all_of(list->begin(), list->end(), is_table);
}

const Map& as_table(const Value& value) {
  const auto* map = std::get_if<Map>(&value);
  return map == nullptr ? empty_map() : *map;
}

// Whether a value in a table is written below a header of its own: [name] or [[name]].
bool has_header(const Value& value) { return std::holds_alternative<Map>(value) || is_array_of_tables(value); }

std::string number_text(double number) {
  std::array<char, 40> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, std::chars_format::general, 17);
  std::string text(digits.data(), end.ptr);
  if (text.find_first_of(".en") == text.npos) text += ".0";
  return text;
}

// How many columns toml++ expects a value to take on one line; any number from kColumns on.
uint64_t columns(const Value& value);

uint64_t columns(const List& list) {
  if (list.empty()) return 2;
  uint64_t sum = 3;
  for (const Value& item : list)
    if ((sum += columns(item) + 2) >= kColumns) break;
  return sum;
}

uint64_t columns(const Map& map) {
  uint64_t sum = 3;
  bool is_empty = true;
  for (const auto& [key, value] : map) {
    if (std::holds_alternative<std::nullptr_t>(value)) continue;
    is_empty = false;
    const uint64_t name = is_utf8(key) ? key.size() : to_utf8_key(key).size();
    if ((sum += name + columns(value) + 2) >= kColumns) break;
  }
  return is_empty ? 2 : sum;
}

uint64_t columns(double number) {
  if (number == 0) return 3;
  if (!std::isfinite(number)) return 4;
  const auto exponent = static_cast<int64_t>(std::log10(std::abs(number)));
  return (number < 0 ? 4 : 3) + static_cast<uint64_t>(exponent);  // wraps below 0, as in toml++: then it is broken
}

uint64_t columns(const Value& value) {
  struct Visit {
    uint64_t operator()(std::nullptr_t) const { return 2; }
    uint64_t operator()(bool) const { return 5; }
    uint64_t operator()(int64_t n) const { return std::to_string(n).size(); }
    uint64_t operator()(uint64_t n) const { return std::to_string(n).size() + (n > INT64_MAX ? 2 : 0); }
    uint64_t operator()(double n) const { return columns(n); }
    uint64_t operator()(const std::string& text) const {
      return (text.size() >= kColumns || is_utf8(text) ? text.size() : to_utf8(text).size()) + 2;
    }
    uint64_t operator()(const List& list) const { return columns(list); }
    uint64_t operator()(const Map& map) const { return columns(map); }
  };
  return std::visit(Visit{}, value);
}

// The escape of a character in a basic string; empty for one that needs none.
std::string escape(std::string_view c) {
  if (c == "\u0085") return "\\u0085";  // line breaks of Unicode
  if (c == "\u2028") return "\\u2028";
  if (c == "\u2029") return "\\u2029";
  if (c.size() != 1) return {};
  if (c == "\t") return {};
  if (c == "\x7F") return "\\u007F";
  if (const std::string_view known = short_escape(c[0]); !known.empty()) return std::string(known);
  if (static_cast<uint8_t>(c[0]) >= 0x20) return {};
  constexpr char kHex[] = "0123456789ABCDEF";
  return {'\\', 'u', '0', '0', kHex[c[0] >> 4], kHex[c[0] & 15]};
}

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

// Writes one document. Calls itself as deep as tables and arrays are nested, which every reader bounds by kMaxDepth.
class TomlWriter {
 public:
  explicit TomlWriter(TextSink& out) : out_(out) {}

  void write(const Map& map) {
    table(map);
    if (!at_line_begin_) out_.append(1, '\n');
  }

 private:
  struct Entry {
    std::string key;  // UTF-8
    const Value* value;
  };

  // The entries that TOML can represent, sorted by key.
  std::vector<Entry> entries_of(const Map& map) {
    std::vector<Entry> entries;
    out_.hold(map.size());
    if (out_.stopped()) return entries;
    entries.reserve(map.size());
    for (const auto& [key, value] : map)
      if (!std::holds_alternative<std::nullptr_t>(value)) entries.push_back({to_utf8_key(key), &value});
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
    const auto same = [](const Entry& a, const Entry& b) { return a.key == b.key; };
    entries.erase(entries.begin(), std::unique(entries.rbegin(), entries.rend(), same).base());  // the last stays
    return entries;
  }

  void table(const Map& map) {
    const std::vector<Entry> entries = entries_of(map);
    for (const Entry& entry : entries) {
      if (out_.stopped()) return;
      if (has_header(*entry.value)) continue;
      separated_ = false;
      end_line();
      indent();
      pair(entry);
    }
    for (const Entry& entry : entries)
      if (const auto* inner = std::get_if<Map>(entry.value)) sub_table(entry.key, *inner);
    for (const Entry& entry : entries)
      if (is_array_of_tables(*entry.value)) array_of_tables(entry.key, std::get<List>(*entry.value));
    out_.let_go(map.size());
  }

  void sub_table(const std::string& key, const Map& map) {
    if (out_.stopped()) return;
    const auto is_null = [](const auto& entry) { return std::holds_alternative<std::nullptr_t>(entry.second); };
    const auto has_no_line = [&](const auto& entry) { return is_null(entry) || has_header(entry.second); };
    // A table that has only tables in it needs no header.
    const bool is_skipped =
        std::all_of(map.begin(), map.end(), has_no_line) && !std::all_of(map.begin(), map.end(), is_null);
    path_.push_back(&key);
    if (!is_skipped) {
      ++indent_;
      header("[", "]");
    }
    table(map);
    path_.pop_back();
    if (!is_skipped) --indent_;
  }

  void array_of_tables(const std::string& key, const List& list) {
    path_.push_back(&key);
    ++indent_;
    for (const Value& item : list) {
      if (out_.stopped()) break;
      header("[[", "]]");
      table(as_table(item));
    }
    --indent_;
    path_.pop_back();
  }

  void header(std::string_view begin, std::string_view end) {
    if (!separated_) {
      out_.append(2, '\n');
      separated_ = true;
    }
    at_line_begin_ = true;
    indent();
    text(begin);
    for (size_t i = 0; i < path_.size() && !out_.stopped(); ++i) {
      if (i > 0) text(".");
      key(*path_[i]);
    }
    text(end);
    separated_ = false;
  }

  void pair(const Entry& entry) {
    key(entry.key);
    text(" = ");
    value(*entry.value);
  }

  void value(const Value& value) {
    struct Visit {
      TomlWriter& writer;
      void operator()(std::nullptr_t) const { writer.text("{}"); }
      void operator()(bool b) const { writer.text(b ? "true" : "false"); }
      void operator()(int64_t n) const { writer.text(std::to_string(n)); }
      void operator()(uint64_t n) const {
        const std::string digits = std::to_string(n);
        writer.text(n <= INT64_MAX ? digits : '"' + digits + '"');
      }
      void operator()(double n) const {
        if (std::isnan(n)) return writer.text("nan");
        if (std::isinf(n)) return writer.text(n > 0 ? "inf" : "-inf");
        writer.text(number_text(n));
      }
      void operator()(const std::string& text) const { writer.string(text); }
      void operator()(const List& list) const { writer.array(list); }
      void operator()(const Map& map) const { writer.inline_table(map); }
    };
    if (!out_.stopped()) std::visit(Visit{*this}, value);
  }

  void inline_table(const Map& map) {
    const std::vector<Entry> entries = entries_of(map);
    if (entries.empty()) {
      text("{}");
    } else {
      text("{ ");
      for (size_t i = 0; i < entries.size() && !out_.stopped(); ++i) {
        if (i > 0) text(", ");
        pair(entries[i]);
      }
      text(" }");
    }
    out_.let_go(map.size());
  }

  void array(const List& list) {
    if (list.empty()) return text("[]");
    const int before = indent_;
    const bool is_broken = columns(list) + 4 * static_cast<uint64_t>(std::max(indent_, 0)) >= kColumns;
    text(is_broken ? "[" : "[ ");
    if (is_broken) indent_ = std::max(indent_, 0) + 1;
    for (size_t i = 0; i < list.size() && !out_.stopped(); ++i) {
      if (i > 0) text(is_broken ? "," : ", ");
      if (is_broken) break_line();
      value(list[i]);
    }
    indent_ = before;
    if (is_broken) break_line();
    text(is_broken ? "]" : " ]");
  }

  void key(const std::string& key) {
    if (!key.empty() && std::all_of(key.begin(), key.end(), is_bare)) return text(key);
    string(key);
  }

  void string(std::string_view text) {
    at_line_begin_ = false;
    out_.append(1, '"');
    while (!text.empty()) {
      const auto plain = static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_plain) - text.begin());
      out_.append(text.substr(0, plain));
      text.remove_prefix(plain);
      if (text.empty()) break;
      const size_t length = utf8_sequence(text);
      if (length == 0)
        out_.append("\uFFFD");
      else if (const std::string escaped = escape(text.substr(0, length)); !escaped.empty())
        out_.append(escaped);
      else
        out_.append(text.substr(0, length));
      text.remove_prefix(std::max<size_t>(length, 1));
    }
    out_.append(1, '"');
  }

  void text(std::string_view text) {
    out_.append(text);
    at_line_begin_ = false;
  }

  void end_line() {
    if (at_line_begin_) return;
    out_.append(1, '\n');
    at_line_begin_ = true;
  }

  void break_line() {
    out_.append(1, '\n');
    at_line_begin_ = true;
    indent();
  }

  void indent() {
    const int depth = std::min(indent_, kMaxIndent);
    if (depth <= 0) return;
    out_.append(4 * static_cast<size_t>(depth), ' ');
    at_line_begin_ = false;
  }

  TextSink& out_;
  std::vector<const std::string*> path_;  // of the table
  int indent_ = -1;                       // the root and the tables in it begin at the same column
  bool at_line_begin_ = true;
  bool separated_ = true;  // an empty line or nothing precedes
};

auto document_of(const Map& map) {
  return [&map](TextSink& out) { TomlWriter(out).write(map); };
}

}  // namespace

std::string to_toml(const Map& map) { return rendered(document_of(map)); }

Result<std::string> to_toml(const Map& map, Budget& budget) { return rendered(budget, document_of(map)); }

}  // namespace weightfs
