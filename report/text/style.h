// Text of the screens of `weightfs info`: what a terminal can show, how wide it is, where it is cut or broken, and how
// numbers are written. Text of a container may have any bytes; clean() is the only way in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace weightfs::info {

inline constexpr size_t kIndent = 2;  ///< columns before facts and tables
inline constexpr size_t kGap = 2;     ///< columns between cells

enum class Charset { ascii, utf8 };
enum class Colours { off, on };

/// Where a screen is shown.
struct Style {
  static constexpr size_t kMinWidth = 40;  ///< a narrower terminal is treated as one of this width

  size_t width = 80;  ///< columns
  Charset charset = Charset::utf8;
  Colours colours = Colours::off;

  bool is_narrow() const { return width < 60; }
  std::string_view ellipsis() const { return charset == Charset::utf8 ? "…" : "..."; }
  std::string_view times() const { return charset == Charset::utf8 ? "×" : "x"; }
  std::string_view dot() const { return charset == Charset::utf8 ? "·" : "-"; }
};

/// The style of standard output: the width of the terminal, else of COLUMNS, else 80; UTF-8 by LC_ALL, LC_CTYPE or
/// LANG; colours on a terminal unless NO_COLOR or TERM=dumb is set.
Style style_of_stdout();

enum class Paint : char { bold = 1, red, yellow, dim };

/// The text in a colour: with marks, which have no width, and which emit() turns into escape sequences or removes.
std::string painted(std::string_view text, Paint paint);

/// The lines, each with a newline.
std::string emit(const std::vector<std::string>& lines, const Style& style);

/// `text` on one line: what printable() would escape becomes `?`, one for each character. In ASCII,
/// `…`, `×` and `·` have replacements, and other characters become `?`.
std::string clean(std::string_view text, const Style& style);

/// The columns that a text takes on a terminal.
size_t width_of(std::string_view text);

/// The end of the longest beginning of a clean text of at most `width` columns.
size_t end_of_columns(std::string_view text, size_t width);

/// `text` without colours in at most `width` columns: with an ellipsis in its middle if it is longer.
std::string shortened(std::string_view text, size_t width, const Style& style);
/// Shortened with the ellipsis at its end.
std::string cut(std::string_view text, size_t width, const Style& style);

std::string left(std::string_view text, size_t width);   ///< padded with blanks after it
std::string right(std::string_view text, size_t width);  ///< padded with blanks before it

/// `text` in lines of at most `width` columns, broken at blanks, or after a comma if a word is too long; a longer word
/// is shortened.
std::vector<std::string> wrapped(std::string_view text, size_t width, const Style& style);

/// Wrapped, but broken after `;` and `:` where that leaves no line less than half full.
std::vector<std::string> wrapped_at_clauses(std::string_view text, size_t width, const Style& style);

/// "a, b, c"; of more than `most`: "a, b, and 3 others", "a and 3 others".
std::string listed(const std::vector<std::string>& items, size_t most, std::string_view separator = ", ");

using weightfs::grouped;                                  ///< "131,072"
std::string parameters_text(uint64_t count);              ///< "8.03 B", "525 M", "4.1 k", "999"
std::string bytes_text(uint64_t count);                   ///< "4.58 GiB", "16 KiB", "999 B"
std::string percent_text(uint64_t part, uint64_t whole);  ///< "13"
std::string decimal_text(double number);  ///< up to six digits, without zeros at the end: "0.7", "500,000"

}  // namespace weightfs::info
