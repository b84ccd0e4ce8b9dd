// Reference: lexer.py and sandbox.py of Jinja 3.1.
#include "formats/code/template.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/format.h"

namespace weightfs::code {
namespace {

constexpr size_t kMaxReached = 4;

// Attributes of functions, generators and frames that the sandbox of Jinja refuses, though no underscore is in front.
constexpr auto kUnsafe = std::to_array<std::string_view>(
    {"gi_frame",      "gi_code",  "cr_frame",   "cr_code",  "ag_frame", "ag_code",      "tb_frame",  "tb_next",
     "f_globals",     "f_locals", "f_builtins", "f_back",   "f_code",   "func_globals", "func_code", "func_closure",
     "func_defaults", "im_func",  "im_self",    "im_class", "mro",      "subclasses"});

// Attributes that lead from a value to all classes and modules.
constexpr auto kDunder = std::to_array<std::string_view>(
    {"__class__",     "__base__",    "__bases__",    "__mro__",          "__subclasses__",    "__globals__",
     "__builtins__",  "__init__",    "__import__",   "__getattribute__", "__getattr__",       "__dict__",
     "__code__",      "__self__",    "__module__",   "__reduce__",       "__reduce_ex__",     "__call__",
     "__func__",      "__closure__", "__getitem__",  "__loader__",       "__spec__",          "__new__",
     "__enter__",     "__wrapped__", "__objclass__", "__doc__",          "__init_subclass__", "__defaults__",
     "__kwdefaults__"});

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<uint8_t>(c) >= 0x80;
}

bool is_unsafe(std::string_view attribute) {
  return attribute.starts_with('_') || std::ranges::find(kUnsafe, attribute) != kUnsafe.end();
}

// Part of a name with underscores at both ends, as "__cla" of "__cla" ~ "ss__".
bool is_half(std::string_view text) {
  if (text.empty()) return false;
  const bool is_line = text.find_first_not_of('_') == text.npos;
  return is_line || text.starts_with("__") != text.ends_with("__");
}

// The character of an escape, which has so many digits of this base.
std::string escaped(std::string_view digits, size_t& at, size_t most, int base) {
  size_t size = 0;
  const auto is_digit = [&](char c) { return parse_number<uint32_t>(std::string_view(&c, 1), base).has_value(); };
  while (size < most && at + size < digits.size() && is_digit(digits[at + size])) ++size;
  const auto value = parse_number<uint32_t>(digits.substr(at, size), base);
  at += size;
  return value && *value < 0x80 ? std::string(1, static_cast<char>(*value)) : "?";
}

// The text of a literal. Names of Python are ASCII here.
std::string unescaped(std::string_view literal) {
  std::string out;
  for (size_t at = 0; at < literal.size();) {
    if (literal[at] != '\\' || at + 1 == literal.size()) {
      out += literal[at++];
      continue;
    }
    const char kind = literal[at + 1];
    at += 2;
    if (kind == 'x' || kind == 'u' || kind == 'U')
      out += escaped(literal, at, kind == 'x' ? 2 : kind == 'u' ? 4 : 8, 16);
    else if (kind >= '0' && kind <= '7')
      out += escaped(literal, --at, 3, 8);
    else if (kind == 'N')  // \N{LOW LINE}
      out += '_';
    else if (kind != '\n')
      out += kind;
  }
  return out;
}

class Scanner {
 public:
  explicit Scanner(std::string_view jinja) : text_(jinja) {}

  std::vector<std::string> scan() && {
    while (found_.size() < kMaxReached && enter()) scan_block();
    return std::move(found_);
  }

 private:
  struct Token {
    enum Kind { none, name, literal, sign } kind = none;
    std::string text;
    bool ends_value() const { return kind == name || kind == literal || text == ")" || text == "]" || text == "}"; }
    bool is(std::string_view other) const { return kind == sign && text == other; }
  };

  // Moves behind the next "{{" or "{%".
  bool enter() {
    while (true) {
      at_ = text_.find('{', at_);
      if (at_ == text_.npos || at_ + 1 >= text_.size()) return false;
      const char next = text_[at_ + 1];
      if (next == '#') {
        at_ = text_.find("#}", at_ + 2);
        if (at_ == text_.npos) return false;
        at_ += 2;
      } else if (next == '{' || next == '%') {
        end_ = next == '{' ? '}' : '%';
        at_ += 2;
        return true;
      } else {
        ++at_;
      }
    }
  }

  void scan_block() {
    before_ = last_ = {};
    depth_ = 0;
    bool is_first = true;
    while (at_ < text_.size() && found_.size() < kMaxReached) {
      const char c = text_[at_];
      if (depth_ == 0 && c == end_ && text_.substr(at_ + 1).starts_with('}')) {
        at_ += 2;
        return;
      }
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || (is_first && (c == '-' || c == '+'))) {
        ++at_;
        continue;
      }
      const Token token = next();
      if (is_first && end_ == '%' && token.kind == Token::name && token.text == "raw") return skip_raw();
      is_first = false;
      check(token);
      before_ = std::move(last_);
      last_ = token;
    }
  }

  Token next() {
    const char c = text_[at_];
    if (is_letter(c)) {
      const size_t begin = at_;
      while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
      return {Token::name, std::string(text_.substr(begin, at_ - begin))};
    }
    if (c == '"' || c == '\'') return literal(c);
    if (c == '{' || c == '[' || c == '(') ++depth_;
    if ((c == '}' || c == ']' || c == ')') && depth_ > 0) --depth_;
    ++at_;
    return {Token::sign, std::string(1, c)};
  }

  Token literal(char quote) {
    const size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != quote) at_ += text_[at_] == '\\' ? 2U : 1U;
    const std::string_view inner = text_.substr(begin, std::min(at_, text_.size()) - begin);
    at_ = std::min(at_ + 1, text_.size());
    return {Token::literal, unescaped(inner)};
  }

  // The position after the tag endraw; everything before that tag is text.
  void skip_raw() {
    constexpr std::string_view kEnd = "endraw";
    for (size_t at = text_.find(kEnd, at_); at != text_.npos; at = text_.find(kEnd, at + 1)) {
      const size_t last = text_.find_last_not_of(" \t\r\n", at - 1);
      if (last == text_.npos) continue;
      const bool has_sign = text_[last] == '-' || text_[last] == '+';
      if (!text_.substr(0, last + (has_sign ? 0 : 1)).ends_with("{%")) continue;
      at_ = std::min(text_.find("%}", at), text_.size() - 2) + 2;
      return;
    }
    at_ = text_.size();
  }

  void check(const Token& token) {
    if (token.kind == Token::name) check_name(token.text);
    if (token.kind == Token::literal) check_literal(token.text);
    const bool joins = token.is("~") || token.is("+") || token.is("*");
    if (joins && last_.kind == Token::literal && is_half(last_.text)) report(fmt::format("'{}'", last_.text));
    if (token.is("%") && last_.kind == Token::literal && last_.text.find("%c") != std::string::npos) report("'%c'");
  }

  void check_name(const std::string& name) {
    if (last_.is(".") && is_unsafe(name)) report("." + name);
    if (last_.is("|") && name == "attr") report("|attr");
    if (last_.is("|") && name == "format" && before_.kind == Token::literal &&
        before_.text.find("%c") != std::string::npos)
      report("'%c'|format");
    if (!last_.is(".") && (name == "lipsum" || name.starts_with("__"))) report(name);
  }

  void check_literal(const std::string& text) {
    const bool is_key = last_.is("[") && before_.ends_value();
    const bool is_attribute = last_.is("=") && before_.kind == Token::name && before_.text == "attribute";
    const bool is_filter = last_.is("(") && before_.kind == Token::name && before_.text == "map";
    const bool joins = last_.is("~") || last_.is("+") || last_.is("*");
    if ((is_key || is_attribute) && is_unsafe(text)) return report(fmt::format("['{}']", text));
    if (is_filter && text == "attr") return report("map('attr')");
    if (joins && is_half(text)) return report(fmt::format("'{}'", text));
    const auto has = [&](std::string_view name) { return text.find(name) != text.npos; };
    if (const auto* const found = std::ranges::find_if(kDunder, has); found != kDunder.end())
      report(fmt::format("'{}'", *found));
  }

  void report(std::string what) {
    if (std::ranges::find(found_, what) == found_.end()) found_.push_back(std::move(what));
  }

  std::string_view text_;
  size_t at_ = 0;
  char end_ = '}';
  int depth_ = 0;
  Token before_, last_;  // the last two tokens
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> reached_by(std::string_view jinja) { return Scanner(jinja).scan(); }

void add_template(std::string_view jinja, std::string_view file, CodeList& out) {
  const std::vector<std::string> reached = reached_by(jinja);
  if (reached.empty()) return;
  out.add({fmt::format("template that reaches for {}", fmt::join(reached, ", ")), std::string(file),
           "when a program renders the template outside of Jinja's sandbox"});
}

void add_templates(const Model& model, std::string_view file, CodeList& out) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  if (model.gguf_keys == nullptr && !traits_of(model.format).has_gguf_keys) return;
  for (const auto& [key, value] : model.metadata) {
    if (!key.starts_with(kKey)) continue;
    if (const auto* const text = std::get_if<std::string>(&value)) add_template(*text, file, out);
  }
}

}  // namespace weightfs::code
