// What a shell completes on our command lines: the parser as plain values, and those as a script for bash or zsh. The
// scripts are made from the parser itself, so they name what --help names.
#pragma once

#include <string>
#include <vector>

#include "cli/verbs.h"

namespace weightfs {

/// An option of a verb, under every name that it has.
struct Choice {
  std::vector<std::string> names;  // "-o", "--format"
  std::string what;
  std::string value;  // the name of its value, as in --help; empty for a flag
  std::string kind;   // what its value is (kind_of)
};

/// An argument of a verb, by its place.
struct Argument {
  std::string name;
  std::string kind;
  bool repeats = false;
};

/// A verb with all that can stand behind it; the program itself is one.
struct Command {
  std::string path;  // "", "mount", "cache rm"
  std::string what;
  std::vector<Choice> choices;
  std::vector<Argument> arguments;
  std::vector<Command> verbs;
};

/// What -o takes: "all", or "format=NAME".
struct MountWord {
  std::string name;
  std::string value;  // empty where it takes none
  std::string kind;
  std::string what;
};

/// All that a script is made of.
struct Completion {
  Command program;
  std::vector<std::string> formats;
  std::vector<MountWord> mount_words;
};

/// The parser's verbs and options, without those that --help hides.
Completion completion_of(const CLI::App& app);

/// The scripts; each ends in a newline.
std::string bash_script(const Completion& completion);
std::string zsh_script(const Completion& completion);

}  // namespace weightfs
