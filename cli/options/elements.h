// The words behind a command, split into its options and arguments as getopt_long(3) does: options may follow
// arguments,
// `--` ends them, letters may share a word, and a value follows `=`, its letter, or is the next word. An option is
// never abbreviated: later options could make that ambiguous. The parser and the completion use it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/options/command.h"

namespace weightfs {

struct Element {
  enum class Kind { argument, option, help, short_help, missing_value, surplus_value, unknown_option };

  Kind kind;
  std::string word;  ///< the argument, or the option as typed: "--timeout", "-o"; a whole word without its value
  const Option* option = nullptr;  ///< null for an argument, a help or an unknown option
  std::string value = {};          ///< of the option; empty for a flag
};

struct Elements {
  std::vector<Element> all;
  bool has_ended = false;  ///< the options, at `--`
};

Elements split_elements(const Command& command, std::span<const std::string> words);

/// The option of `command` that is spelled `word`: "--all" or "-a". Null if there is none.
const Option* find_option(const Command& command, const std::string& word);

}  // namespace weightfs
