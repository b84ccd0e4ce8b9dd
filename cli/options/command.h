// The command line as data: commands with their arguments and options. The parser, --help, the completions and the
// messages about mistakes are made from it.
#pragma once

#include <functional>
#include <optional>
#include <string>
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
  /// Takes one value. Fails with unsupported, and with what is wrong with it.
  std::function<Result<void>(const std::string& value)> take;

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
};

/// What a command line asks for.
struct Invocation {
  enum class What { run, help, version };

  What what;
  std::vector<const Command*> path;  ///< from the program to the command

  const Command& command() const { return *path.back(); }
};

/// Parses the words after the program's name; the arguments and options take their values. `-h` and `--help` are known
/// to every command, `--version` to the program. Fails with unsupported, with a message in one line that ends in where
/// to read more.
Result<Invocation> parse(const Command& program, const std::vector<std::string>& words);

/// What the help says of the options that every command has, and of the program's.
inline constexpr const char* kHelpOption = "print this help";
inline constexpr const char* kVersionOption = "print the version";

/// The text of --help, at most `columns` wide.
std::string help_of(const Invocation& invocation, size_t columns);

}  // namespace weightfs
