// Reference: monai/bundle/config_item.py and config_parser.py of MONAI 1.5.
#include "formats/code/monai.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>

#include "formats/code/names.h"
#include "formats/code/targets.h"

namespace weightfs::code {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\\";  // a backslash continues a line of Python

// The maximum length of an expression; of a longer one the beginning is examined.
constexpr size_t kMaxExpression = 10'000;

bool is_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<uint8_t>(c) >= 0x80;
}

// The word or the character in front of a place.
std::string_view word_before(std::string_view text, size_t at) {
  const size_t last = at == 0 ? text.npos : text.find_last_not_of(kBlanks, at - 1);
  if (last == text.npos) return {};
  size_t begin = last;
  while (begin > 0 && is_of_word(text[last]) && is_of_word(text[begin - 1])) --begin;
  return text.substr(begin, last + 1 - begin);
}

// Whether a parenthesis behind this word begins a call: "f(", "f()(", "f[0](".
bool is_called(std::string_view word) {
  constexpr auto kKeywords = std::to_array<std::string_view>(
      {"and", "or", "not", "in", "is", "if", "else", "for", "lambda", "return", "yield", "await"});
  if (word.empty() || is_one_of(word, kKeywords)) return false;
  return is_of_word(word.back()) || std::string_view(")]}\"'").find(word.back()) != std::string_view::npos;
}

bool has_import(std::string_view text) {
  constexpr std::string_view kImport = "import";
  for (size_t at = text.find(kImport); at != text.npos; at = text.find(kImport, at + 1)) {
    const size_t end = at + kImport.size();
    if ((at == 0 || !is_of_word(text[at - 1])) && (end == text.size() || !is_of_word(text[end]))) return true;
  }
  return false;
}

// Values, references to other items ("@device") and their operators run nothing that the configuration names.
bool calls_or_imports(std::string_view python) {
  if (python.size() >= kMaxExpression || has_import(python)) return true;
  for (size_t at = python.find('('); at != python.npos; at = python.find('(', at + 1))
    if (is_called(word_before(python, at))) return true;
  return false;
}

// `text`: begins with `$`.
void add_expression(std::string_view text, std::string_view path, CodeList& out) {
  const std::string_view python = text.substr(1, kMaxExpression);
  if (calls_or_imports(python))
    out.add({fmt::format("expression ${}", python), std::string(path), "when MONAI evaluates the configuration"});
}

size_t indentation(std::string_view line) { return std::min(line.find_first_not_of(' '), line.size()); }

// Without quotes, the lines that follow belong to the text if they are indented more than the line that it is in, or,
// if it begins its line, not less.
std::string_view plain_text(std::string_view yaml, size_t at) {
  const size_t before = at == 0 ? yaml.npos : yaml.rfind('\n', at - 1);
  const size_t line = before == yaml.npos ? 0 : before + 1;
  const size_t own = indentation(yaml.substr(line, at - line + 1));
  const size_t least = own == at - line ? own : own + 1;
  size_t end = std::min(yaml.find('\n', at), yaml.size());
  while (end < yaml.size() && end - at < kMaxExpression) {
    const std::string_view next = yaml.substr(end + 1, kMaxExpression);
    const std::string_view whole = next.substr(0, next.find('\n'));
    if (indentation(whole) < least && whole.find_first_not_of(" \r") != whole.npos) break;
    end += 1 + whole.size();
  }
  const std::string_view text = yaml.substr(at, end - at);
  return text.substr(0, text.find_last_not_of(" \r\n") + 1);
}

// Two single quotes in a text of single quotes do not end it.
std::string_view quoted_text(std::string_view yaml, size_t at, char quote) {
  size_t end = at;
  for (; end < yaml.size() && end - at <= kMaxExpression; ++end) {
    const bool is_escape =
        quote == '"' ? yaml[end] == '\\' : yaml[end] == quote && end + 1 < yaml.size() && yaml[end + 1] == quote;
    if (is_escape)
      ++end;
    else if (yaml[end] == quote)
      break;
  }
  return yaml.substr(at, std::min(end, yaml.size()) - at);
}

class BundleVisitor {
 public:
  BundleVisitor(std::string_view path, CodeList& out) : path_(path), out_(out) {}

  void visit(const Value& value) {
    if (const auto* const text = std::get_if<std::string>(&value); text != nullptr && text->starts_with('$'))
      add_expression(*text, path_, out_);
    if (const auto* const list = std::get_if<List>(&value))
      for (const Value& one : *list) visit(one);
    const auto* const map = std::get_if<Map>(&value);
    if (map == nullptr) return;
    for (const auto& [key, one] : *map) {
      const auto* const target = key == "_target_" ? std::get_if<std::string>(&one) : nullptr;
      if (target != nullptr) add_target(*target, path_, Instantiator::monai, out_);
      visit(one);
    }
  }

 private:
  std::string_view path_;
  CodeList& out_;
};

}  // namespace

bool is_bundle_configuration(std::string_view path) {
  const size_t end = path.rfind('/');
  if (end == path.npos) return false;
  const std::string_view directory = path.substr(0, end);
  const std::string_view folder = directory.substr(directory.rfind('/') + 1);
  return (folder == "configs" || folder == "extra") &&
         (path.ends_with(".json") || path.ends_with(".yaml") || path.ends_with(".yml"));
}

void add_bundle(const Value& json, std::string_view path, CodeList& out) { BundleVisitor(path, out).visit(json); }

void add_expressions(std::string_view yaml, std::string_view path, CodeList& out) {
  constexpr std::string_view kBegins = " \t\n\"'[{,";
  for (size_t at = yaml.find('$'); at != yaml.npos; at = yaml.find('$', at + 1)) {
    if (yaml.substr(at + 1).starts_with('{')) continue;  // a reference of Hydra
    const char before = at == 0 ? '\n' : yaml[at - 1];
    if (kBegins.find(before) == kBegins.npos) continue;
    const std::string_view text =
        before == '"' || before == '\'' ? quoted_text(yaml, at, before) : plain_text(yaml, at);
    add_expression(text, path, out);
    at += text.size() - 1;
  }
}

}  // namespace weightfs::code
