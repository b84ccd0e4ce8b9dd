// What differs between bash, zsh and fish: the script that calls the program, and the form of the candidates.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cli/completion/completer.h"

namespace weightfs::completion {

/// The script for a shell; empty for a name that is not one. A script calls `weightfs complete SHELL -- WORDS…`, and
/// prints or inserts the lines of print().
std::string_view script_of(std::string_view shell);

inline constexpr std::array<const char*, 3> kShells = {"bash", "zsh", "fish"};

/// A command line of bash, up to the cursor.
struct BashLine {
  std::vector<std::string> words;  ///< unquoted, without the program
  std::string typed;               ///< the last word as it was typed, behind its opening quote
  char quote = 0;                  ///< the quote that it opens, ' or "; 0: none
  size_t cut = 0;                  ///< in `typed`, where the text begins that readline replaces
};

/// `breaks` is $COMP_WORDBREAKS.
BashLine split_bash_line(std::string_view line, std::string_view breaks);

/// A word that bash reads as `text`, in a word that begins with `quote`: nothing of it is expanded or run. Empty if
/// there is none.
std::string quoted_for_bash(std::string_view text, char quote);

/// The lines for a script: a candidate, for zsh and fish with its help behind a tab; `:file` or `:directory` and the
/// text before the path, behind a tab; `:nospace` if the word goes on. A candidate with a control character is left
/// out.
std::string lines_for_bash(const Completions& completions, const BashLine& line);
std::string lines_with_help(const Completions& completions);

}  // namespace weightfs::completion
