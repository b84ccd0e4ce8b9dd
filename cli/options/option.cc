#include "cli/options/option.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/text.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

std::string with(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

}  // namespace

std::string Option::word() const { return with(name, '-', '_'); }

Option flag(std::string name, std::string help, bool& field) {
  return flag(0, std::move(name), std::move(help), field);
}

Option flag(char letter, std::string name, std::string help, bool& field) {
  const auto take = [&field](const std::string&) -> Result<void> {
    field = true;
    return {};
  };
  return {std::move(name), "", std::move(help), take, letter};
}

Option text(std::string name, std::string value, std::string help, std::string& field) {
  return parsed(std::move(name), std::move(value), std::move(help), "", field,
                [](const std::string& given) { return std::optional(given); });
}

Option list(std::string name, std::string value, std::string help, std::vector<std::string>& field) {
  return {std::move(name), std::move(value), std::move(help), [&field](const std::string& text) -> Result<void> {
            field.push_back(text);
            return {};
          }};
}

std::optional<uint64_t> parse_size(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (unit.empty() || unit == "B") return number;
  const std::string_view behind = unit.substr(1);
  const size_t power =
      std::string_view("KMGT").find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
  if (power == std::string_view::npos || !(behind.empty() || behind == "B" || behind == "iB")) return std::nullopt;
  uint64_t size = 0;
  return __builtin_mul_overflow(number, uint64_t{1024} << (10 * power), &size) ? std::nullopt : std::optional(size);
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words(1);
  bool is_quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_escape = c == '\\' && i + 1 < text.size() && std::string_view("\\,\"").find(text[i + 1]) < 3;
    if (is_escape) {
      words.back() += text[++i];
    } else if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  std::erase(words, "");
  return words;
}

Result<bool> take_word(const Options& options, const std::string& word) {
  const size_t equals = std::min(word.find('='), word.size());
  const std::string name = with(word.substr(0, equals), '_', '-');
  const auto option =
      std::find_if(options.begin(), options.end(), [&](const Option& each) { return each.name == name; });
  if (option == options.end()) return false;
  const auto wrong = [&](const std::string& what) {
    return failure(Code::unsupported, fmt::format("-o {}: {}", option->word(), what));
  };
  const std::string value = word.substr(std::min(equals + 1, word.size()));
  if (option->value.empty() && equals != word.size()) return wrong("takes no value");
  if (!option->value.empty() && value.empty())
    return wrong(fmt::format("needs a value: {}={}", option->word(), option->value));
  if (const auto taken = option->take(value); !taken) return wrong(taken.error().message);
  return true;
}

std::string option_names(const Options& options) {
  std::vector<std::string> words;
  for (const Option& option : options)
    words.push_back(option.word() + (option.value.empty() ? "" : "=" + option.value));
  return enumerated(words);
}

}  // namespace weightfs
