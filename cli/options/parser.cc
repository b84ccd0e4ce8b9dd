// The parser of the command line.
#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "cli/options/command.h"
#include "cli/options/elements.h"
#include "report/text/suggestions.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

using Words = std::vector<std::string>;

Words names_of(const std::vector<Command>& commands) {
  Words names;
  for (const Command& command : commands) names.push_back(command.name);
  return names;
}

// The names behind the program's, each with a space: "cache rm ".
std::string family_of(const Invocation& invocation) {
  std::string family;
  for (size_t i = 1; i < invocation.path.size(); ++i) family += invocation.path[i]->name + " ";
  return family;
}

Error usage_error(const Invocation& invocation, const std::string& message) {
  return {Code::unsupported, fmt::format("{} (see weightfs {}--help)", message, family_of(invocation))};
}

Error no_option(const Invocation& invocation, const std::string& word, const Words& known) {
  const std::string option = word.substr(0, word.find('='));
  return usage_error(invocation, fmt::format("{}: unknown option{}", printable(option), did_you_mean(option, known)));
}

Words option_names_of(const Command& command) {
  Words names = {"--help"};
  for (const OptionGroup& group : command.groups)
    for (const Option& option : group.options)
      if (!option.name.empty()) names.push_back("--" + option.name);
  return names;
}

// Takes an element that is neither an argument nor a request for help.
Result<void> take_option(const Invocation& invocation, const Element& element) {
  const std::string word = printable(element.word);
  switch (element.kind) {
    case Element::Kind::unknown_option:
      return failure(no_option(invocation, element.word, option_names_of(invocation.command())));
    case Element::Kind::missing_value:
      return failure(usage_error(invocation, fmt::format("{} needs a value: {}", word, element.option->value)));
    case Element::Kind::surplus_value:
      return failure(usage_error(invocation, fmt::format("{} takes no value", word)));
    default:
      break;
  }
  const Option& option = *element.option;
  const std::string name = option.name.empty() ? fmt::format("-{}", option.letter) : "--" + option.name;
  return option.take(element.value).map_error([&](const Error& error) {
    return usage_error(invocation, fmt::format("{}: {}", name, error.message));
  });
}

Result<void> take_arguments(const Invocation& invocation, const Words& words) {
  size_t next = 0;
  for (const Argument& argument : invocation.command().arguments) {
    const bool is_needed = argument.count == Argument::Count::one || argument.count == Argument::Count::some;
    if (is_needed && next == words.size()) {
      std::string family = family_of(invocation);
      family.pop_back();
      return failure(usage_error(invocation, fmt::format("{}: missing {}", family, argument.name)));
    }
    for (bool first = true; next < words.size() && (first || argument.repeats()); first = false, ++next)
      if (const auto taken = argument.take(words[next]); !taken)
        return failure(usage_error(invocation, fmt::format("{}: {}", argument.name, taken.error().message)));
  }
  if (next == words.size()) return {};
  return failure(usage_error(invocation, "too many arguments: " + printable(words[next])));
}

// Sets the options and arguments of the command.
Result<Invocation::Action> parse_command(const Invocation& invocation, std::span<const std::string> words) {
  Words arguments;
  for (const Element& element : split_elements(invocation.command(), words).all) {
    if (element.kind == Element::Kind::help) return Invocation::Action::help;
    if (element.kind == Element::Kind::short_help) return Invocation::Action::short_help;
    if (element.kind == Element::Kind::argument)
      arguments.push_back(element.word);
    else
      TRY_VOID(take_option(invocation, element));
  }
  TRY_VOID(take_arguments(invocation, arguments));
  return Invocation::Action::run;
}

Error missing_command(const Invocation& invocation) {
  const std::string family = family_of(invocation);
  return usage_error(
      invocation, fmt::format("{}missing command: {}", family.empty() ? "" : family.substr(0, family.size() - 1) + ": ",
                              enumerated(names_of(invocation.command().commands))));
}

// The action that an option of the program, or of a command with commands, asks for.
std::optional<Invocation::Action> option_of_group(const Invocation& invocation, const std::string& word) {
  if (word == "-h") return Invocation::Action::short_help;
  if (word == "--help") return Invocation::Action::help;
  const bool is_version = word == "-V" || word == "--version" || word == "version";
  if (is_version && invocation.path.size() == 1) return Invocation::Action::version;
  return std::nullopt;
}

bool has_option(const Command& command, const std::string& word) {
  if (find_option(command, word) != nullptr) return true;
  return std::ranges::any_of(command.commands, [&](const Command& each) { return has_option(each, word); });
}

// An option before the name of a command.
Error misplaced_option(const Invocation& invocation, const std::string& word) {
  const bool is_program = invocation.path.size() == 1;
  if (!has_option(invocation.command(), word))
    return no_option(invocation, word, is_program ? Words{"--help", "--version"} : Words{"--help"});
  return usage_error(invocation, fmt::format("{}: an option of commands; give it after the command{}", printable(word),
                                             word == "-v" ? "; -V prints the version" : ""));
}

Result<const Command*> named_command(const Invocation& invocation, const std::string& word) {
  const Command& group = invocation.command();
  if (word.starts_with('-') && word.size() > 1) return tl::unexpected(misplaced_option(invocation, word));
  if (const Command* const found = find_command(group, word)) return found;
  const std::string unknown = "unknown command " + quoted(family_of(invocation) + word);
  for (const auto& [name, instead] : group.hints)
    if (name == word) return tl::unexpected(usage_error(invocation, fmt::format("{}; use {}", unknown, instead)));
  const Words known = names_of(group.commands);
  const std::string guess = did_you_mean(word, known);
  return tl::unexpected(
      usage_error(invocation, unknown + (guess.empty() ? "; known commands: " + enumerated(known) : guess)));
}

}  // namespace

Argument argument(std::string name, std::string help, std::string& value, Argument::Count count) {
  return {std::move(name), std::move(help), count, [&value](const std::string& given) -> Result<void> {
            value = given;
            return {};
          }};
}

Argument arguments(std::string name, std::string help, std::vector<std::string>& values, Argument::Count count) {
  return {std::move(name), std::move(help), count, [&values](const std::string& given) -> Result<void> {
            values.push_back(given);
            return {};
          }};
}

const Command* find_command(const Command& group, const std::string& word) {
  for (const Command& each : group.commands)
    if (each.name == word || std::ranges::find(each.aliases, word) != each.aliases.end()) return &each;
  return nullptr;
}

const Command* implied_command(const Command& group, const std::string& word) {
  const Command::Implied& implied = group.implied;
  if (implied.accepts == nullptr || find_command(group, word) != nullptr || word.starts_with('-')) return nullptr;
  return implied.accepts(word) ? find_command(group, implied.command) : nullptr;
}

Result<Invocation> parse(const Command& program, const std::vector<std::string>& words) {
  Invocation invocation{Invocation::Action::run, {&program}};
  if (words.empty()) return Invocation{Invocation::Action::usage, invocation.path};
  auto word = words.begin();
  // `weightfs help mount` is `weightfs mount --help`.
  const bool asks_for_help = word != words.end() && *word == "help";
  if (asks_for_help) {
    ++word;
    invocation.action = Invocation::Action::help;
    if (word != words.end() && *word == "exit-status")
      return Invocation{Invocation::Action::exit_statuses, invocation.path};
  }
  while (!invocation.command().commands.empty()) {
    if (word == words.end() && asks_for_help) return invocation;
    if (word == words.end()) return tl::unexpected(missing_command(invocation));
    if (const auto action = option_of_group(invocation, *word)) return Invocation{*action, invocation.path};
    if (const Command* const implied = implied_command(invocation.command(), *word);
        implied != nullptr && !asks_for_help) {
      invocation.path.push_back(implied);
      break;
    }
    invocation.path.push_back(TRY(named_command(invocation, *word)));
    ++word;
  }
  if (asks_for_help) return invocation;
  invocation.action = TRY(parse_command(invocation, {word, words.end()}));
  return invocation;
}

}  // namespace weightfs
