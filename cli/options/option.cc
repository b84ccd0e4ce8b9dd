#include "cli/options/option.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace weightfs {
namespace {

std::string with(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

}  // namespace

std::string Option::word() const { return with(name, '-', '_'); }

Option flag(std::string name, std::string help, bool& value) {
  return flag(0, std::move(name), std::move(help), value);
}

Option flag(char letter, std::string name, std::string help, bool& value) {
  const auto take = [&value](const std::string&) -> Result<void> {
    value = true;
    return {};
  };
  return {std::move(name), "", std::move(help), take, letter};
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
  std::string words;
  for (const Option& option : options)
    words += fmt::format("{}{}{}{}", words.empty() ? "" : ", ", option.word(), option.value.empty() ? "" : "=",
                         option.value);
  return words;
}

}  // namespace weightfs
