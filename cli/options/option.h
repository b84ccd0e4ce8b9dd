// The table of options: each entry is a command line option (--cache-size 20G) and, for `weightfs mount`, also a word
// of -o (cache_size=20G), so that fstab and the command line cannot differ.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weightfs {

struct Option {
  std::string name;   ///< "cache-size"
  std::string value;  ///< placeholder of the value, such as "SIZE"; empty for a flag
  std::string help;
  /// Applies the value (empty for a flag). Fails with unsupported; the message describes the problem.
  std::function<Result<void>(const std::string& value)> take;
  char letter = 0;  ///< 'l' for `-l`

  /// The name in -o: "cache_size".
  std::string word() const;
};

using Options = std::vector<Option>;

/// A flag that sets `value`. One without a name has only its letter.
Option flag(std::string name, std::string help, bool& value);
Option flag(char letter, std::string name, std::string help, bool& value);

/// Splits the words of -o at commas, except commas in double quotes or after a backslash; removes these quotes and
/// backslashes (mount(8) and libfuse escape commas like this).
std::vector<std::string> split_words(std::string_view text);

/// Applies one word of -o, with _ or - in its name. False if the option is unknown; fails with unsupported if its value
/// is invalid, missing, or not expected.
Result<bool> take_word(const Options& options, const std::string& word);

/// The known words: "all, cache_size=SIZE, …".
std::string option_names(const Options& options);

}  // namespace weightfs
