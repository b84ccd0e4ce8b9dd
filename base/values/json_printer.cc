#include "base/values/json_printer.h"

#include "base/values/rendering.h"

namespace weightfs {

void JsonPrinter::begin_member(std::string_view key) {
  text_ += has_members_ ? "," : "{";
  if (!is_line()) text_ += "\n  ";
  has_members_ = true;
  append_json_string(text_, key);
  text_ += is_line() ? ":" : ": ";
}

void JsonPrinter::append(const Value& value, int depth) {
  text_ += is_line() ? to_json_line(value) : to_json_nested(value, depth);
}

void JsonPrinter::flush() {
  write_(text_);
  text_.clear();
}

void JsonPrinter::member(std::string_view key, const Value& value) {
  begin_member(key);
  append(value, 1);
  flush();
}

void JsonPrinter::begin_list(std::string_view key) {
  begin_member(key);
  text_ += '[';
  has_items_ = false;
}

void JsonPrinter::item(const Value& value) {
  if (has_items_) text_ += ',';
  if (!is_line()) text_ += "\n    ";
  has_items_ = true;
  append(value, 2);
  flush();
}

void JsonPrinter::end_list() { text_ += has_items_ && !is_line() ? "\n  ]" : "]"; }

void JsonPrinter::end() {
  if (!has_members_) text_ += '{';
  text_ += has_members_ && !is_line() ? "\n}" : "}";
  if (!is_line()) text_ += '\n';
  flush();
}

}  // namespace weightfs
