// The command line as data: commands with their arguments and options. The parser, --help, the completions and the
// error messages use it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/exit.h"
#include "cli/options/option.h"

namespace weightfs {

/// An argument by its position.
struct Argument {
  enum class Count { one, optional, some, any };  ///< exactly one, at most one, one or more, any number

  std::string name;  ///< "SOURCE"
  std::string help;
  Count count;
  /// Sets the value from its text. Fails with unsupported and the reason.
  std::function<Result<void>(const std::string& value)> take;
  std::vector<std::string> choices = {};  ///< the possible values, if they are few

  bool repeats() const { return count == Count::some || count == Count::any; }
};

Argument argument(std::string name, std::string help, std::string& value, Argument::Count count = Argument::Count::one);
Argument arguments(std::string name, std::string help, std::vector<std::string>& values,
                   Argument::Count count = Argument::Count::any);

/// Options under a heading of --help.
struct OptionGroup {
  std::string title;
  Options options;
};

/// A command; the program itself is one. Either `commands` is not empty, and one of them must be given, or `run` is
/// set.
struct Command {
  std::string name;
  std::string help;
  std::vector<Argument> arguments = {};
  std::vector<OptionGroup> groups = {};
  std::vector<Command> commands = {};
  std::function<Exit()> run = {};
  Exit write_failed = Exit::io;  ///< the status if standard output cannot be written

  // Set by program() for the commands of weightfs.
  std::vector<std::string> examples = {};  ///< command lines for -h
  std::vector<std::string> aliases = {};   ///< other names that call it; they are not in the help
  /// The one of `commands` that is run if the first word is none of their names, but one that this accepts: the word is
  /// its first argument then.
  struct Implied {
    std::string command;
    bool (*accepts)(const std::string& word) = nullptr;
  };
  Implied implied = {};
  /// Names that call nothing, and what to use instead.
  std::vector<std::pair<std::string, std::string>> hints = {};
  std::string statuses = {};  ///< its exit statuses, if they differ from those of the other commands
};

/// A parsed command line.
struct Invocation {
  /// `usage`: the command is missing; the short help says which there are.
  enum class Action { run, short_help, help, exit_statuses, version, usage };

  Action action;
  std::vector<const Command*> path;  ///< from the program to the command

  const Command& command() const { return *path.back(); }
};

/// Parses the words after the program's name, and sets the arguments and options. Every command has `-h` and `--help`,
/// the program has `-V`, `--version` and `version`; `help COMMAND` is `COMMAND --help`, and `help exit-status` prints
/// the exit statuses. Without words the action is `usage`. Fails with unsupported and a message of one line that ends
/// in a reference to the help.
Result<Invocation> parse(const Command& program, const std::vector<std::string>& words);

/// The command of a group that `word` names, also by an alias; null if there is none.
const Command* find_command(const Command& group, const std::string& word);

/// The command of a group that is run with `word` as its first argument (Command::Implied); null if there is none.
const Command* implied_command(const Command& group, const std::string& word);

/// The help texts of the options of every command, and of the program.
inline constexpr const char* kShortHelpOption = "print the options that are used most";
inline constexpr const char* kHelpOption = "print all options";
inline constexpr const char* kVersionOption = "print the version";

/// The text of --help, at most `columns` wide.
std::string help_of(const Invocation& invocation, size_t columns);

/// The text of -h: usage, examples and up to ten options, or the commands, in at most 24 lines of at most `columns`.
std::string short_help_of(const Invocation& invocation, size_t columns);

}  // namespace weightfs
