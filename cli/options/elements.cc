#include "cli/options/elements.h"

#include <algorithm>
#include <optional>

namespace weightfs {
namespace {

using Kind = Element::Kind;

class Splitter {
 public:
  Splitter(const Command& command, std::span<const std::string> words) : command_(command), words_(words) {}

  Elements split() && {
    while (next_ < words_.size()) take(words_[next_++]);
    return std::move(out_);
  }

 private:
  void take(const std::string& word) {
    if (out_.has_ended || !word.starts_with('-') || word == "-")
      add(Kind::argument, word);
    else if (word == "--")
      out_.has_ended = true;
    else if (word.starts_with("--"))
      take_name(word);
    else
      take_letters(word);
  }

  void take_name(const std::string& word) {
    const size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals);
    const bool has_value = equals < word.size();
    const Option* const option = find_option(command_, name);
    if (option == nullptr && name != "--help") return add(Kind::unknown_option, name);
    if (option != nullptr && option->is_value_optional())
      return add(Kind::option, name, option, has_value ? word.substr(equals + 1) : "");
    if (option != nullptr && !option->value.empty())
      return take_value(word, *option, has_value ? std::optional(word.substr(equals + 1)) : std::nullopt);
    add(has_value ? Kind::surplus_value : option == nullptr ? Kind::help : Kind::option, name, option);
  }

  void take_letters(const std::string& word) {
    for (size_t i = 1; i < word.size(); ++i) {
      const std::string letter = {'-', word[i]};
      const Option* const option = find_option(command_, letter);
      if (option != nullptr && !option->value.empty())
        return take_value(word, *option, i + 1 < word.size() ? std::optional(word.substr(i + 1)) : std::nullopt);
      const Kind without = letter == "-h" ? Kind::short_help : Kind::unknown_option;
      add(option == nullptr ? without : Kind::option, letter, option);
    }
  }

  void take_value(const std::string& word, const Option& option, std::optional<std::string> value) {
    if (!value && next_ < words_.size()) value = words_[next_++];
    add(value ? Kind::option : Kind::missing_value, word, &option, value.value_or(""));
  }

  void add(Kind kind, const std::string& word, const Option* option = nullptr, std::string value = {}) {
    out_.all.push_back({kind, word, option, std::move(value)});
  }

  const Command& command_;
  const std::span<const std::string> words_;
  size_t next_ = 0;
  Elements out_;
};

}  // namespace

Elements split_elements(const Command& command, std::span<const std::string> words) {
  return Splitter(command, words).split();
}

const Option* find_option(const Command& command, const std::string& word) {
  for (const OptionGroup& group : command.groups)
    for (const Option& option : group.options)
      if ((!option.name.empty() && word == "--" + option.name) ||
          (option.letter != 0 && word == std::string{'-', option.letter}))
        return &option;
  return nullptr;
}

}  // namespace weightfs
