// The parser of the command line, on getopt_long(3).
#include <fmt/core.h>
#include <getopt.h>

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "cli/console/suggestions.h"
#include "cli/options/command.h"

namespace weightfs {
namespace {

using Words = std::vector<std::string>;

constexpr int kShortHelp = 'h';
constexpr int kHelp = 999;
constexpr int kFirstOption = 1000;  // getopt_long's value of the first option of a command

std::string joined(const Words& words) {
  std::string out;
  for (const std::string& word : words) out += fmt::format("{}{}", out.empty() ? "" : ", ", word);
  return out;
}

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

// The options of a command, for getopt_long.
class LeafParser {
 public:
  LeafParser(const Invocation& invocation, const Words& words) : invocation_(invocation) {
    for (const OptionGroup& group : command().groups)
      for (const Option& option : group.options) options_.push_back(&option);
    add("help", kHelp, no_argument);
    short_ += "h";
    for (size_t i = 0; i < options_.size(); ++i) {
      const bool has_value = !options_[i]->value.empty();
      const int value = options_[i]->letter != 0 ? options_[i]->letter : kFirstOption + static_cast<int>(i);
      if (options_[i]->letter != 0) short_ += fmt::format("{}{}", options_[i]->letter, has_value ? ":" : "");
      if (!options_[i]->name.empty())
        add(options_[i]->name.c_str(), value, has_value ? required_argument : no_argument);
    }
    long_.push_back({nullptr, 0, nullptr, 0});
    words_ = {"weightfs"};
    words_.insert(words_.end(), words.begin(), words.end());
    for (std::string& word : words_) argv_.push_back(word.data());
    argv_.push_back(nullptr);
  }

  Result<Invocation::Action> parse() {
    optind = 0;  // begins anew
    opterr = 0;
    int number = 0;
    while ((number = next()) != -1) {
      if (number == '?' || number == ':') return tl::unexpected(error_of(number));
      if (!is_spelled_out(number)) return tl::unexpected(no_option(invocation_, typed(), names()));
      if (number == kHelp) return Invocation::Action::help;
      if (number == kShortHelp) return Invocation::Action::short_help;
      const Option& option = option_of(number);
      const std::string name = option.name.empty() ? fmt::format("-{}", option.letter) : "--" + option.name;
      if (const auto taken = option.take(optarg == nullptr ? "" : optarg); !taken)
        return tl::unexpected(usage_error(invocation_, fmt::format("{}: {}", name, taken.error().message)));
    }
    TRY_VOID(take_arguments());
    return Invocation::Action::run;
  }

 private:
  const Command& command() const { return invocation_.command(); }
  void add(const char* name, int value, int has_value) { long_.push_back({name, has_value, nullptr, value}); }
  int next() {
    index_ = -1;
    return ::getopt_long(static_cast<int>(words_.size()), argv_.data(), short_.c_str(), long_.data(), &index_);
  }

  // The word that the current option was read from.
  std::string typed() const {
    const bool is_separate = optarg != nullptr && optind >= 2 && optarg == argv_[static_cast<size_t>(optind) - 1];
    return argv_[static_cast<size_t>(optind) - (is_separate ? 2 : 1)];
  }

  // getopt_long accepts abbreviations, which later options could make ambiguous.
  bool is_spelled_out(int) const {
    if (index_ < 0) return true;
    const std::string word = typed();
    return word.substr(0, word.find('=')) == fmt::format("--{}", long_[static_cast<size_t>(index_)].name);
  }

  const Option& option_of(int number) const {
    if (number >= kFirstOption) return *options_[static_cast<size_t>(number - kFirstOption)];
    return **std::find_if(options_.begin(), options_.end(), [&](const Option* each) { return each->letter == number; });
  }

  Words names() const {
    Words names = {"--help"};
    for (const Option* const option : options_)
      if (!option->name.empty()) names.push_back("--" + option->name);
    return names;
  }

  Error error_of(int number) const {
    const std::string word = argv_[static_cast<size_t>(optind) - 1];
    if (number == ':')
      return usage_error(invocation_, fmt::format("{} needs a value{}", printable(word), value_name()));
    const std::string name = word.substr(0, word.find('='));
    const Words known = names();
    if (std::find(known.begin(), known.end(), name) != known.end())
      return usage_error(invocation_, fmt::format("{} takes no value", printable(name)));
    return no_option(invocation_, word.starts_with("--") ? word : fmt::format("-{}", static_cast<char>(optopt)),
                     names());
  }

  // The option whose value is missing.
  std::string value_name() const {
    const std::string& value = option_of(optopt).value;
    return value.empty() ? "" : ": " + value;
  }

  Result<void> take_arguments() {
    size_t next = static_cast<size_t>(optind);
    for (const Argument& argument : command().arguments) {
      const bool is_needed = argument.count == Argument::Count::one || argument.count == Argument::Count::some;
      if (is_needed && next == words_.size())
        return tl::unexpected(usage_error(invocation_, fmt::format("{}: missing {}", family(), argument.name)));
      for (bool first = true; next < words_.size() && (first || argument.repeats()); first = false, ++next)
        if (const auto taken = argument.take(words_at(next)); !taken)
          return tl::unexpected(usage_error(invocation_, fmt::format("{}: {}", argument.name, taken.error().message)));
    }
    if (next == words_.size()) return {};
    return tl::unexpected(usage_error(invocation_, "too many arguments: " + printable(words_at(next))));
  }

  // getopt_long moves arguments behind options in argv_.
  std::string words_at(size_t index) const { return argv_[index]; }

  std::string family() const {
    std::string family = family_of(invocation_);
    family.pop_back();
    return family;
  }

  const Invocation& invocation_;
  std::vector<const Option*> options_;
  std::string short_ = ":";  // a missing value is ':', not '?'
  std::vector<option> long_;
  Words words_;
  std::vector<char*> argv_;
  int index_ = -1;  // in long_, of the current option; -1 for a short one
};

Error missing_command(const Invocation& invocation) {
  const std::string family = family_of(invocation);
  return usage_error(
      invocation, fmt::format("{}missing command: {}", family.empty() ? "" : family.substr(0, family.size() - 1) + ": ",
                              joined(names_of(invocation.command().commands))));
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
  for (const OptionGroup& group : command.groups)
    for (const Option& option : group.options)
      if (word == "--" + option.name || (option.letter != 0 && word == fmt::format("-{}", option.letter))) return true;
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

// The command that `word` names, also by an alias.
Result<const Command*> find_command(const Invocation& invocation, const std::string& word) {
  const Command& group = invocation.command();
  if (word.starts_with('-') && word.size() > 1) return tl::unexpected(misplaced_option(invocation, word));
  for (const Command& each : group.commands)
    if (each.name == word || std::ranges::find(each.aliases, word) != each.aliases.end()) return &each;
  const std::string unknown = "unknown command " + quoted(family_of(invocation) + word);
  for (const auto& [name, instead] : group.hints)
    if (name == word) return tl::unexpected(usage_error(invocation, fmt::format("{}; use {}", unknown, instead)));
  const Words known = names_of(group.commands);
  const std::string guess = did_you_mean(word, known);
  return tl::unexpected(
      usage_error(invocation, unknown + (guess.empty() ? "; known commands: " + joined(known) : guess)));
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

Result<Invocation> parse(const Command& program, const std::vector<std::string>& words) {
  Invocation invocation{Invocation::Action::run, {&program}};
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
    invocation.path.push_back(TRY(find_command(invocation, *word)));
    ++word;
  }
  if (asks_for_help) return invocation;
  LeafParser parser(invocation, Words(word, words.end()));
  invocation.action = TRY(parser.parse());
  return invocation;
}

}  // namespace weightfs
