// What can be told on the command line, as one table: each entry is an option of its own (--cache-size 20G) and, of
// `weightfs mount`, a word of -o as well (cache_size=20G), so that fstab and the command line cannot differ.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weightfs {

struct Option {
  std::string name;   ///< "cache-size"
  std::string value;  ///< what its value is called: "SIZE"; empty of a flag, which takes none
  std::string help;
  /// Takes the value (of a flag, nothing). Fails with unsupported, and says what is wrong with it.
  std::function<Result<void>(const std::string& value)> take;
  char letter = 0;  ///< 'l' for `-l`

  /// As -o has it: "cache_size".
  std::string word() const;
};

using Options = std::vector<Option>;

/// A flag that sets `flag`.
Option flag(std::string name, std::string help, bool& flag);

/// Adds each as `--name` under the heading `group` of the help.
void add_options(CLI::App& verb, const Options& options, const std::string& group);

/// The words of -o: split at commas, but not at those between double quotes or behind a backslash, both of which are
/// taken off (mount(8) and libfuse write a comma so).
std::vector<std::string> split_words(std::string_view text);

/// Takes one word of -o, with _ or - in its name. False when there is no option of that name; fails with unsupported
/// when its value is wrong, missing, or too much.
Result<bool> take_word(const Options& options, const std::string& word);

/// "all, cache_size=SIZE, …": what take_word() knows.
std::string words_of(const Options& options);

}  // namespace weightfs
