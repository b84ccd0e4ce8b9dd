// Makes text safe to print, because text of containers may hold any bytes; parses text; reads the environment.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace weightfs {

/// `name` in double quotes for a message: control bytes, quotes, backslashes and bytes that are not UTF-8 are written
/// \xNN; a long name is cut after 80 bytes.
std::string quoted(std::string_view name);
/// Overloads for std::string: without them the compiler would take std::quoted, which leaves control bytes as they are,
/// where <iomanip> is included, and <filesystem> does that.
inline std::string quoted(const std::string& name) { return quoted(std::string_view(name)); }
inline std::string quoted(std::string& name) { return quoted(std::string_view(name)); }
inline std::string quoted(const char* name) { return quoted(std::string_view(name)); }

/// `name` with control characters, invisible ones and bytes that are not UTF-8 written \xNN: for a person's terminal.
std::string printable(std::string_view name);

/// `text` as one word for a POSIX shell, in quotes if it needs them; printable.
std::string shell_word(std::string_view text);

/// Whether `text` is UTF-8 by RFC 3629: no surrogates, no overlong forms, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text);

/// The length (1 to 4) of the well-formed UTF-8 sequence at the beginning of `text`; 0 if there is none.
size_t utf8_sequence(std::string_view text);

/// The longest beginning of `text` of at most `most` bytes that does not end within a character of UTF-8.
std::string_view begin_of_text(std::string_view text, size_t most);

/// Appends the character with this number, which is at most U+10FFFF; that of a surrogate is not valid UTF-8.
void append_utf8(std::string& out, uint32_t point);

/// The value of a hex digit; negative for any other character.
int hex_digit(char c);

/// Whether `text`, which is not empty, starts with a control character: U+0000 to U+001F, U+007F to U+009F.
bool is_control(std::string_view text);

/// `text` with every byte outside a UTF-8 sequence replaced by U+FFFD.
std::string to_utf8(std::string_view text);

/// `text` with every byte outside a UTF-8 sequence written %XX: for keys, which must stay distinct.
std::string to_utf8_key(std::string_view text);

/// `text` with `%`, `/`, control characters and bytes that are not UTF-8 written %XX: safe as a file name.
std::string percent_escaped(std::string_view text);

/// `text` with A to Z in lower case; other bytes are unchanged.
std::string lower_case(std::string_view text);

/// `text` without white space at both ends.
std::string_view trimmed(std::string_view text);

/// Whether `text` has only visible characters of ASCII: no white space, no control characters. True for the empty text.
bool is_visible_ascii(std::string_view text);

/// Whether `name` can be the name of one file: not empty, `.` or `..`, without `/` and NUL bytes.
bool is_file_name(std::string_view name);

/// Calls `take` with each component of a path, including empty ones: one more than the path has `/`.
template <class Take>
void for_each_component(std::string_view path, const Take& take) {
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    take(path.substr(begin, end - begin));
    begin = end + 1;
  }
}

/// Removes and returns the text before the next `/`, and removes that.
std::string_view cut_component(std::string_view& rest);

/// Whether all components of `path` are file names. False for the empty path.
bool is_plain_path(std::string_view path);

/// What normalize() does with the components `..` of a path.
enum class Dots {
  kept,      ///< as names
  resolved,  ///< each removes the component before it
  refused,
};

/// `path` without empty components and `.`; empty if nothing remains. Nothing if a `..` is refused, or has no component
/// before it to remove.
std::optional<std::string> normalize(std::string_view path, Dots dots);

/// Parses the whole of `text`; nothing if it is not a number, or out of range. `base` may be that of an integer.
template <class Number, class... Base>
std::optional<Number> parse_number(std::string_view text, Base... base) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base...);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

/// The value of an environment variable, or of the first that is set and not empty; empty if there is none.
std::string environment(const char* name);
std::string environment(std::initializer_list<const char*> names);

/// `count` bytes in readable form: "1.2 GiB", "512 B".
std::string human_size(uint64_t count);

/// `number` with commas between groups of three digits: "4,920,739,232".
std::string grouped(uint64_t number);

}  // namespace weightfs
