#include "base/values/rendering.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "base/values/value.h"

namespace weightfs {
namespace {

// Each charge costs a lock-free loop and sometimes a check of the process's memory.
constexpr uint64_t kStep = 64 * 1024;

// The escape of the first character of `text` in a JSON string; empty for one that needs none. JSON does not demand it
// of U+007F to U+009F, but those steer terminals, too.
std::string_view escape(std::string_view text, std::string& unicode) {
  if (const std::string_view known = short_escape(text[0]); !known.empty()) return known;
  if (!is_control(text)) return {};
  constexpr char kHex[] = "0123456789abcdef";
  // The second byte of U+0080 to U+009F is its number.
  const auto code = static_cast<uint8_t>(text[static_cast<uint8_t>(text[0]) < 0x80 ? 0 : 1]);
  unicode = {'\\', 'u', '0', '0', kHex[code >> 4], kHex[code & 15]};
  return unicode;
}

template <class Out>
void write_json_string(Out& out, std::string_view text) {
  std::string unicode;
  out.append(1, '"');
  while (!text.empty()) {
    const auto plain = static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_plain) - text.begin());
    out.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    const size_t length = utf8_sequence(text);
    const std::string_view escaped = length > 0 ? escape(text, unicode) : std::string_view();
    if (length == 0)
      out.append("\uFFFD");
    else
      out.append(escaped.empty() ? text.substr(0, length) : escaped);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  out.append(1, '"');
}

template <class Integer>
void write_integer(TextSink& out, Integer n) {
  std::array<char, 24> digits;
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), n).ptr;
  out.append({digits.data(), end});
}

// Writes a Value without recursion: a Value may be as deep as a reader allows.
class JsonWriter {
 public:
  /// Containers at a depth below `indented` have a line for each value. The value is in `outer` containers, which are
  /// written elsewhere.
  JsonWriter(TextSink& out, int indented, int outer = 0) : out_(out), indented_(indented), outer_(outer) {}

  void write(const Value& value) {
    begin(value);
    while (!open_.empty() && !out_.stopped()) step();
  }

 private:
  struct Open {
    const List* list;  // or
    const Map* map;
    size_t next = 0;
    size_t size() const { return list != nullptr ? list->size() : map->size(); }
  };

  void step() {
    Open& top = open_.back();
    const bool is_list = top.list != nullptr;
    const bool is_indented = depth() <= indented_;
    if (top.next == top.size()) {
      open_.pop_back();
      if (is_indented) new_line();
      return out_.append(1, is_list ? ']' : '}');
    }
    if (top.next > 0) out_.append(1, ',');
    if (is_indented) new_line();
    const size_t i = top.next++;
    if (is_list) return begin((*top.list)[i]);
    const auto& [key, value] = *(top.map->begin() + static_cast<std::ptrdiff_t>(i));
    if (is_utf8(key))
      write_json_string(out_, key);
    else
      write_json_string(out_, to_utf8_key(key));
    out_.append(is_indented ? ": " : ":");
    begin(value);
  }

  // A value; of a list or map with something in it only the beginning.
  void begin(const Value& value) {
    if (const auto* list = std::get_if<List>(&value)) {
      if (list->empty()) return out_.append("[]");
      out_.append(1, '[');
      open_.push_back({list, nullptr});
    } else if (const auto* map = std::get_if<Map>(&value)) {
      if (map->empty()) return out_.append("{}");
      out_.append(1, '{');
      open_.push_back({nullptr, map});
    } else {
      scalar(value);
    }
  }

  void scalar(const Value& value) {
    struct Visit {
      TextSink& out;
      void operator()(std::nullptr_t) const { out.append("null"); }
      void operator()(bool b) const { out.append(b ? "true" : "false"); }
      void operator()(int64_t n) const { write_integer(out, n); }
      void operator()(uint64_t n) const { write_integer(out, n); }
      void operator()(double n) const {
        if (std::isnan(n))
          out.append("\"NaN\"");
        else if (std::isinf(n))
          out.append(n > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        else
          out.append(json_number(n));
      }
      void operator()(const std::string& text) const { write_json_string(out, text); }
      void operator()(const List&) const {}
      void operator()(const Map&) const {}
    };
    std::visit(Visit{out_}, value);
  }

  int depth() const { return outer_ + static_cast<int>(open_.size()); }
  void new_line() {
    static const std::string deepest = "\n" + std::string(2 * size_t{kMaxIndent}, ' ');
    out_.append(std::string_view(deepest).substr(0, 1 + 2 * static_cast<size_t>(depth())));
  }

  TextSink& out_;
  int indented_;
  int outer_;
  std::vector<Open> open_;
};

auto page_of(const Value& value) {
  return [&value](TextSink& out) {
    JsonWriter(out, kMaxIndent).write(value);
    out.append(1, '\n');
  };
}

}  // namespace

std::string_view short_escape(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return {};
  }
}

TextSink::~TextSink() {
  if (budget_ == nullptr) return;
  budget_->release(Cost::rendered, charged_);
  budget_->release(Cost::value, held_);
}

bool TextSink::charge(Cost cost, uint64_t count) {
  const auto charged = budget_->charge(cost, count);
  if (!charged && !error_) error_ = charged.error();
  return charged.has_value();
}

void TextSink::count(uint64_t bytes) {
  size_ += bytes;
  if (size_ - charged_ < kStep || error_) return;
  if (charge(Cost::rendered, size_ - charged_)) charged_ = size_;
}

void TextSink::hold(uint64_t values) {
  if (budget_ != nullptr && !error_ && charge(Cost::value, values)) held_ += values;
}

void TextSink::let_go(uint64_t values) {
  const uint64_t held = std::min(values, held_);
  held_ -= held;
  if (budget_ != nullptr) budget_->release(Cost::value, held);
}

Result<uint64_t> TextSink::finish() {
  if (!error_ && charge(Cost::rendered, size_ - charged_)) charged_ = size_;
  if (error_) return tl::unexpected(*error_);
  charged_ = 0;
  return size_;
}

SourcePtr charged_text(std::string text, BudgetPtr budget) {
  SourcePtr bytes = in_memory(std::move(text));
  const Source* const source = bytes.get();
  return {source, [bytes = std::move(bytes), budget = std::move(budget)](const Source*) mutable {
            budget->release(Cost::rendered, bytes->size());
            bytes.reset();
          }};
}

std::string to_json(const Value& value) { return rendered(page_of(value)); }

std::string to_json_nested(const Value& value, int depth) {
  return rendered([&](TextSink& out) { JsonWriter(out, kMaxIndent, depth).write(value); });
}

Result<std::string> to_json(const Value& value, Budget& budget) { return rendered(budget, page_of(value)); }

std::string to_json_line(const Value& value) {
  return rendered([&](TextSink& out) { JsonWriter(out, 0).write(value); });
}

void append_json_string(std::string& out, std::string_view text) { write_json_string(out, text); }
void append_json_string(TextSink& out, std::string_view text) { write_json_string(out, text); }

}  // namespace weightfs
