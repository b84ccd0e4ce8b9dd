// Shell completion. The parser is converted to plain values, and these to a script for bash or zsh, so that the scripts
// agree with --help.
#pragma once

#include <string>
#include <vector>

#include "cli/verbs.h"

namespace weightfs::completion {

/// An option of a verb, with all of its names.
struct OptionSpec {
  std::vector<std::string> names;  // "-o", "--format"
  std::string help;
  std::string value;  // placeholder of its value, as in --help; empty for a flag
  std::string kind;   // kind of its value (kind_of)
};

/// A positional argument of a verb.
struct ArgumentSpec {
  std::string name;
  std::string kind;
  bool repeats = false;
};

/// A verb with its options, arguments and subcommands; also the program itself.
struct CommandSpec {
  std::string path;  // "", "mount", "cache rm"
  std::string help;
  std::vector<OptionSpec> options;
  std::vector<ArgumentSpec> arguments;
  std::vector<CommandSpec> verbs;
};

/// A word of -o: "all", or "format=NAME".
struct MountOptionSpec {
  std::string name;
  std::string value;  // empty for a flag
  std::string kind;
  std::string help;
};

/// The input of the script generators.
struct Completion {
  CommandSpec program;
  std::vector<std::string> formats;
  std::vector<MountOptionSpec> mount_options;
};

/// Converts the commands and their options.
Completion describe_commands(const Command& program);

/// The completion script; ends with a newline.
std::string bash_script(const Completion& completion);
std::string zsh_script(const Completion& completion);

}  // namespace weightfs::completion
