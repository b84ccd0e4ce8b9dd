#include "report/text/style.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "base/text.h"
#include "report/text/table.h"
#include "report/text/terminal.h"

namespace weightfs::info {
namespace {

constexpr size_t kDefaultWidth = 80;
constexpr size_t kMaxWidth = 10'000;
constexpr char kEnd = 5;  // of a colour; the marks of Paint are 1 to 4

bool is_mark(char c) { return c >= static_cast<char>(Paint::bold) && c <= kEnd; }

uint32_t code_point(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(sequence[i])); };
  switch (sequence.size()) {
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    case 4:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    default:
      return byte(0);
  }
}

struct Range {
  uint32_t first, last;
};

bool is_in(std::span<const Range> ranges, uint32_t code) {
  return std::ranges::any_of(ranges, [code](Range range) { return code >= range.first && code <= range.last; });
}

// Characters that take two columns (Unicode's East Asian Width W and F, without gaps), and none.
constexpr std::array kWide = {Range{0x1100, 0x115F},   Range{0x2E80, 0x303E},   Range{0x3041, 0xA4CF},
                              Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE6F},
                              Range{0xFF00, 0xFF60},   Range{0xFFE0, 0xFFE6},   Range{0x1F300, 0x1F64F},
                              Range{0x1F680, 0x1F6FF}, Range{0x1F900, 0x1F9FF}, Range{0x20000, 0x3FFFD}};
constexpr std::array kNoWidth = {Range{0x0300, 0x036F}, Range{0xFE00, 0xFE0F}};

size_t width_of_character(std::string_view sequence) {
  if (sequence.size() < 2) return is_mark(sequence[0]) ? 0 : 1;
  const uint32_t code = code_point(sequence);
  return is_in(kNoWidth, code) ? 0 : is_in(kWide, code) ? 2 : 1;
}

// The first character of a clean text.
std::string_view first_of(std::string_view text) { return text.substr(0, std::max<size_t>(utf8_sequence(text), 1)); }

std::string_view in_ascii(std::string_view character) {
  constexpr std::array<std::array<std::string_view, 2>, 3> kReplaced = {{{"…", "..."}, {"×", "x"}, {"·", "-"}}};
  for (const auto& [from, to] : kReplaced)
    if (character == from) return to;
  return "?";
}

// The beginning of the longest end of at most `width` columns.
size_t begin_of_columns(std::string_view text, size_t width) {
  size_t begin = text.size(), used = 0;
  while (begin > 0) {
    size_t before = begin - 1;
    while (before > 0 && (text[before] & 0xC0) == 0x80) --before;
    used += width_of_character(text.substr(before, begin - before));
    if (used > width) break;
    begin = before;
  }
  return begin;
}

std::string three_digits(double number) {
  return fmt::format("{:.{}f}", number, number < 9.995 ? 2 : number < 99.95 ? 1 : 0);
}

// `small`: the first unit, of which fractions are of no interest.
std::string scaled(double number, double step, std::string_view small, std::span<const std::string_view> units) {
  number /= step;
  if (number < 9.95) return fmt::format("{:.1f} {}", number, small);
  if (number < step - 0.5) return fmt::format("{:.0f} {}", number, small);
  size_t unit = 0;
  for (number /= step; number >= step - 0.5 && unit + 1 < units.size(); ++unit) number /= step;
  return fmt::format("{} {}", three_digits(number), units[unit]);
}

// Adds pieces to lines of at most `width` columns. Colours continue on the next line.
class Filler {
 public:
  Filler(size_t width, const Style& style) : width_(width), style_(style) {}

  // A piece that is not broken unless it is too long for a line.
  void add(std::string_view piece) {
    if (!fits(piece)) {
      if (!is_empty()) end_line();
      while (!fits(piece)) {
        const size_t comma = piece.substr(0, end_of_columns(piece, width_)).rfind(',');
        if (comma == piece.npos || comma + 1 == piece.size()) return append(shortened(piece, width_, style_));
        append(piece.substr(0, comma + 1));
        end_line();
        piece.remove_prefix(comma + 1);
      }
    }
    append(piece);
  }
  // Whether the piece would begin a new line although the current one is less than half full.
  bool would_leave_half(std::string_view piece) const { return !is_empty() && used_ < width_ / 2 && !fits(piece); }
  void end_line() {
    if (paint_ != 0) line_ += kEnd;
    lines_.push_back(std::move(line_));
    line_.clear();
    if (paint_ != 0) line_ += paint_;
    used_ = 0;
  }
  std::vector<std::string> finish() && {
    if (!is_empty() || lines_.empty()) lines_.push_back(std::move(line_));
    return std::move(lines_);
  }

 private:
  bool is_empty() const { return used_ == 0; }
  bool fits(std::string_view piece) const { return used_ + (is_empty() ? 0 : 1) + width_of(piece) <= width_; }
  void append(std::string_view piece) {
    if (!is_empty()) line_ += ' ', ++used_;
    line_ += piece;
    used_ += width_of(piece);
    for (const char c : piece)
      if (is_mark(c)) paint_ = c == kEnd ? '\0' : c;
  }

  size_t width_;
  const Style& style_;
  std::vector<std::string> lines_;
  std::string line_;
  size_t used_ = 0;
  char paint_ = 0;  // the mark of the colour at the end of the line
};

std::string_view next_word(std::string_view& text) {
  const size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace

Style style_of_stdout() {
  Style style;
  const std::string locale = lower_case(environment({"LC_ALL", "LC_CTYPE", "LANG"}));
  const bool is_utf8 = locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
  style.charset = is_utf8 ? Charset::utf8 : Charset::ascii;
  style.colours = stdout_has_colors() ? Colours::on : Colours::off;
  std::optional<size_t> width = columns_of(STDOUT_FILENO);
  if (!width) width = parse_number<size_t>(environment("COLUMNS"));
  style.width = std::clamp(width.value_or(kDefaultWidth), Style::kMinWidth, kMaxWidth);
  return style;
}

std::string painted(std::string_view text, Paint paint) {
  return text.empty() ? "" : fmt::format("{}{}{}", static_cast<char>(paint), text, kEnd);
}

std::string emit(const std::vector<std::string>& lines, const Style& style) {
  constexpr std::array<std::string_view, 5> kSequences = {"\033[1m", "\033[31m", "\033[33m", "\033[2m", "\033[0m"};
  std::string out;
  for (const std::string& line : lines) {
    for (const char c : line) {
      if (!is_mark(c))
        out += c;
      else if (style.colours == Colours::on)
        out += kSequences[static_cast<size_t>(c) - 1];
    }
    out += '\n';
  }
  return out;
}

std::string clean(std::string_view text, const Style& style) {
  std::string out;
  while (!text.empty()) {
    const size_t length = utf8_sequence(text);
    const std::string_view character = text.substr(0, std::max<size_t>(length, 1));
    if (length == 0 || printable(character) != character)
      out += '?';
    else if (length > 1 && style.charset == Charset::ascii)
      out += in_ascii(character);
    else
      out += character;
    text.remove_prefix(character.size());
  }
  return out;
}

size_t width_of(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const std::string_view character = first_of(text);
    width += width_of_character(character);
    text.remove_prefix(character.size());
  }
  return width;
}

size_t end_of_columns(std::string_view text, size_t width) {
  size_t end = 0, used = 0;
  while (end < text.size()) {
    const std::string_view character = first_of(text.substr(end));
    used += width_of_character(character);
    if (used > width) break;
    end += character.size();
  }
  return end;
}

std::string shortened(std::string_view text, size_t width, const Style& style) {
  if (width_of(text) <= width) return std::string(text);
  const size_t mark = width_of(style.ellipsis());
  if (width <= mark) return std::string(style.ellipsis().substr(0, style.charset == Charset::utf8 ? 3 : width));
  const size_t first = (width - mark) / 2;
  const std::string_view begin = text.substr(0, end_of_columns(text, first));
  return fmt::format("{}{}{}", begin, style.ellipsis(), text.substr(begin_of_columns(text, width - mark - first)));
}

std::string cut(std::string_view text, size_t width, const Style& style) {
  if (width_of(text) <= width) return std::string(text);
  const size_t mark = width_of(style.ellipsis());
  if (width <= mark) return shortened(text, width, style);
  return fmt::format("{}{}", text.substr(0, end_of_columns(text, width - mark)), style.ellipsis());
}

std::string left(std::string_view text, size_t width) {
  return std::string(text) + std::string(width - std::min(width, width_of(text)), ' ');
}

std::string right(std::string_view text, size_t width) {
  return std::string(width - std::min(width, width_of(text)), ' ') + std::string(text);
}

std::vector<std::string> wrapped(std::string_view text, size_t width, const Style& style) {
  Filler filler(width, style);
  while (!text.empty()) filler.add(next_word(text));
  return std::move(filler).finish();
}

std::vector<std::string> wrapped_at_clauses(std::string_view text, size_t width, const Style& style) {
  Filler filler(width, style);
  std::string clause;
  while (!text.empty()) {
    const std::string_view word = next_word(text);
    clause += fmt::format("{}{}", clause.empty() ? "" : " ", word);
    if (!text.empty() && !word.ends_with(';') && !word.ends_with(':')) continue;
    if (width_of(clause) <= width && !filler.would_leave_half(clause))
      filler.add(clause);
    else
      for (std::string_view words = clause; !words.empty();) filler.add(next_word(words));
    clause.clear();
  }
  return std::move(filler).finish();
}

std::string listed(const std::vector<std::string>& items, size_t most, std::string_view separator) {
  std::string out;
  const size_t shown = items.size() > most ? most : items.size();
  for (size_t i = 0; i < shown; ++i) out += fmt::format("{}{}", i == 0 ? "" : separator, items[i]);
  const size_t others = items.size() - shown;
  if (others > 0) out += fmt::format("{} and {} {}", shown > 1 ? "," : "", others, others == 1 ? "other" : "others");
  return out;
}

std::string parameters_text(uint64_t count) {
  constexpr std::array<std::string_view, 3> kUnits = {"M", "B", "T"};
  return count < 1000 ? std::to_string(count) : scaled(static_cast<double>(count), 1000, "k", kUnits);
}

std::string bytes_text(uint64_t count) {
  constexpr std::array<std::string_view, 5> kUnits = {"MiB", "GiB", "TiB", "PiB", "EiB"};
  return count < 1024 ? fmt::format("{} B", count) : scaled(static_cast<double>(count), 1024, "KiB", kUnits);
}

std::string percent_text(uint64_t part, uint64_t whole) {
  if (whole == 0) return "0";
  return fmt::format("{:.0f}", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string decimal_text(double number) {
  const bool is_whole = number >= 0 && number < 1e15 && std::floor(number) == number;
  return is_whole ? grouped(static_cast<uint64_t>(number)) : fmt::format("{:.6g}", number);
}

}  // namespace weightfs::info
