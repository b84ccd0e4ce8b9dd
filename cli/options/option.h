// The table of options: each entry is a command line option (--cache-size 20G) and, for `weightfs mount`, also a word
// of -o (cache_size=20G), so that fstab and the command line cannot differ.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "report/text/words.h"

namespace weightfs {

struct Option {
  std::string name;   ///< "cache-size"
  std::string value;  ///< placeholder of the value, such as "SIZE"; empty for a flag; "[=NAME]" if it may be left out
  std::string help;
  /// Applies the value (empty for a flag). Fails with unsupported; the message describes the problem.
  std::function<Result<void>(const std::string& value)> take;
  char letter = 0;                        ///< 'l' for `-l`
  std::vector<std::string> choices = {};  ///< the possible values, if they are few

  /// The name in -o: "cache_size".
  std::string word() const;

  /// The value is given behind `=`, or not at all.
  bool is_value_optional() const { return value.starts_with("[="); }
};

using Options = std::vector<Option>;

// Each of the functions below returns the option of one field, which holds the default.

/// A flag that sets `field`. One without a name has only its letter.
Option flag(std::string name, std::string help, bool& field);
Option flag(char letter, std::string name, std::string help, bool& field);

/// An option with any text.
Option text(std::string name, std::string value, std::string help, std::string& field);

/// An option that may be repeated; `field` gets all of its values.
Option list(std::string name, std::string value, std::string help, std::vector<std::string>& field);

/// An option whose text `parse` turns into the value. Its error for nothing is `"TEXT" WRONG`.
template <class T, class Parse>
Option parsed(std::string name, std::string value, std::string help, std::string wrong, T& field, Parse parse) {
  return {std::move(name), std::move(value), std::move(help),
          [wrong = std::move(wrong), &field, parse](const std::string& text) -> Result<void> {
            const auto found = parse(text);
            if (!found) return failure(Code::unsupported, quoted(text) + " " + wrong);
            field = *found;
            return {};
          }};
}

template <class T>
struct Choice {
  std::string_view name;
  T value;
};

/// One of `choices`. The error is `"TEXT" is not WHAT; use A, B or C`.
template <class T>
Option choice(std::string name, std::string value, std::string help, const std::string& what,
              std::vector<Choice<std::type_identity_t<T>>> choices, T& field) {
  std::vector<std::string> names;
  for (const auto& each : choices) names.emplace_back(each.name);
  Option option = parsed(std::move(name), std::move(value), std::move(help),
                         "is not " + what + "; use " + enumerated(names, " or "), field,
                         [choices = std::move(choices)](const std::string& text) -> std::optional<T> {
                           for (const auto& each : choices)
                             if (each.name == text) return each.value;
                           return std::nullopt;
                         });
  option.choices = std::move(names);
  return option;
}

/// Whole seconds of a range, and the error for other texts.
struct SecondsRange {
  unsigned least;
  unsigned most;
  const char* wrong;
};
inline constexpr SecondsRange kUpToADay{1, 24 * 60 * 60, "is not a number of seconds from 1 to 86400"};
inline constexpr SecondsRange kZeroIsNever{0, 365 * 24 * 60 * 60, "is not a number of seconds; 0 means never"};

template <class Duration>
Option seconds(std::string name, std::string help, SecondsRange range, Duration& field) {
  return parsed(std::move(name), "SECONDS", std::move(help), range.wrong, field,
                [range](const std::string& text) -> std::optional<Duration> {
                  const auto number = parse_number<unsigned>(text);
                  if (!number || *number < range.least || *number > range.most) return std::nullopt;
                  return std::chrono::seconds(*number);
                });
}

/// Parses a size such as 500M, 20GiB or 1048576 (K, M, G, T are powers of 1024) into bytes; nothing if it is not a
/// size.
std::optional<uint64_t> parse_size(std::string_view text);

/// A size in bytes that `is_valid`, and the error for other texts.
struct SizeRule {
  const char* wrong = "is not a size; use a number such as 20G";
  bool (*is_valid)(uint64_t bytes) = [](uint64_t) { return true; };
};

template <class Size>
Option size(std::string name, std::string help, Size& field, SizeRule rule = {}) {
  return parsed(std::move(name), "SIZE", std::move(help), rule.wrong, field, [rule](const std::string& text) {
    const auto bytes = parse_size(text);
    return bytes && rule.is_valid(*bytes) ? bytes : std::nullopt;
  });
}

/// Splits the words of -o at commas, except commas in double quotes or after a backslash; removes these quotes and
/// backslashes (mount(8) and libfuse escape commas like this).
std::vector<std::string> split_words(std::string_view text);

/// Applies one word of -o, with _ or - in its name. False if the option is unknown; fails with unsupported if its value
/// is invalid, missing, or not expected.
Result<bool> take_word(const Options& options, const std::string& word);

/// The known words: "all, cache_size=SIZE, …".
std::string option_names(const Options& options);

}  // namespace weightfs
