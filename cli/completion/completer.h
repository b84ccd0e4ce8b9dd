// Completes a command line from the table of commands and options, so that it agrees with --help.
#pragma once

#include <string>
#include <vector>

#include "cli/options/command.h"

namespace weightfs::completion {

struct Candidate {
  std::string text;  ///< the whole word
  std::string help = {};
};

/// What a word can be.
struct Completions {
  enum class Paths { none, files, directories };

  std::vector<Candidate> candidates = {};
  Paths paths = Paths::none;  ///< the shell completes a path
  std::string before = {};    ///< the beginning of the word, which is not part of the path: "--blob-dir="
  bool continues = false;     ///< the word goes on after a candidate: it is a list
};

/// Completes the last of `words`, which follow the program's name and are unquoted. Reads local files only. What cannot
/// be read has no candidates.
Completions complete(const Command& program, const std::vector<std::string>& words);

}  // namespace weightfs::completion
