#include "cli/options/option.h"

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

Option flag(std::string name, std::string help, bool& flag) {
  return {std::move(name), "", std::move(help), [&flag](const std::string&) -> Result<void> {
            flag = true;
            return {};
          }};
}

void add_options(CLI::App& verb, const Options& options, const std::string& group) {
  for (const Option& option : options) {
    const std::string name = "--" + option.name;
    const auto take = [name, take = option.take](const std::string& value) {
      if (const auto taken = take(value); !taken) throw CLI::ValidationError(name, taken.error().message);
    };
    if (option.value.empty()) {
      verb.add_flag_callback(
              name, [take] { take(""); }, option.help)
          ->group(group);
      continue;
    }
    // A repeated option is taken each time; for most options the last value counts.
    const auto take_all = [take](const std::vector<std::string>& values) {
      for (const std::string& value : values) take(value);
      return true;
    };
    verb.add_option(name, take_all, option.help)
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->type_name(option.value)
        ->group(group);
  }
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
    return failure(Code::unsupported, str("-o ", option->word(), ": ", what));
  };
  const std::string value = word.substr(std::min(equals + 1, word.size()));
  if (option->value.empty() && equals != word.size()) return wrong("takes no value");
  if (!option->value.empty() && value.empty()) return wrong(str("needs a value: ", option->word(), "=", option->value));
  if (const auto taken = option->take(value); !taken) return wrong(taken.error().message);
  return true;
}

std::string option_names(const Options& options) {
  std::string words;
  for (const Option& option : options)
    words += str(words.empty() ? "" : ", ", option.word(), option.value.empty() ? "" : "=", option.value);
  return words;
}

}  // namespace weightfs
