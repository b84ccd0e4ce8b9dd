#include "report/text/table.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "report/text/terminal.h"

namespace weightfs {
namespace {

// In characters of UTF-8 text.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// SGR (ECMA-48): bold, green, yellow, red.
constexpr const char* kBold = "\033[1m";
constexpr const char* kPlain = "\033[0m";
const char* escape_of(CellColor color) {
  switch (color) {
    case CellColor::green:
      return "\033[32m";
    case CellColor::yellow:
      return "\033[33m";
    case CellColor::red:
      return "\033[31m";
    case CellColor::none:
      break;
  }
  return "";
}

std::string with_color(const std::string& text, const std::string& color) {
  return color.empty() ? text : color + text + kPlain;
}

// The text in parts that fit into the terminal, broken at blanks: the first one after `begin` columns, the others after
// the indentation of further lines.
std::vector<std::string> broken(const std::string& text, size_t begin, const TableStyle& style) {
  if (text.starts_with('/')) return {text};  // a path, which may be copied
  std::vector<std::string> parts = {""};
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at + 1), text.size());  // a blank stays before its word
    const std::string word = text.substr(at, end - at);
    const size_t indent = parts.size() == 1 ? begin : 4;
    if (style.width && !parts.back().empty() && indent + width(parts.back() + word) > *style.width)
      parts.push_back(word.substr(1));
    else
      parts.back() += word;
    at = end;
  }
  return parts;
}

}  // namespace

std::string tab_escaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t run = std::min(text.find_first_of("\t\n\\", i), text.size());
    out += printable(text.substr(i, run - i));
    if (run < text.size()) out += text[run] == '\t' ? "\\t" : text[run] == '\n' ? "\\n" : "\\\\";
    i = run + 1;
  }
  return out;
}

Cell bytes_cell(uint64_t count) { return {human_size(count), std::to_string(count)}; }

bool stdout_has_colors() {
  return ::isatty(STDOUT_FILENO) == 1 && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

TableStyle TableStyle::for_stdout() {
  return {::isatty(STDOUT_FILENO) == 1 ? aligned : tabs, stdout_has_colors() ? colored : uncolored,
          columns_of(STDOUT_FILENO)};
}

void Table::print(const TableStyle& style) const {
  if (style.form == TableStyle::aligned)
    print_aligned(style);
  else
    print_tabs();
}

void Table::print_tabs() const {
  std::string line;
  for (const Column& column : columns_) line += fmt::format("{}{}", line.empty() ? "" : "\t", column.header);
  std::ranges::replace(line, ' ', '_');
  std::printf("%s\n", line.c_str());
  for (const auto& row : rows_) {
    line.clear();
    for (const Cell& cell : row) line += fmt::format("{}{}", &cell == row.data() ? "" : "\t", tab_escaped(cell.raw));
    std::printf("%s\n", line.c_str());
  }
}

bool Table::has_header() const {
  return std::any_of(columns_.begin(), columns_.end(), [](const Column& column) { return !column.header.empty(); });
}

std::vector<Table::Line> Table::lines() const {
  std::vector<Line> lines;
  if (has_header()) {
    lines.emplace_back();
    for (const Column& column : columns_) lines.back().push_back({column.header, kBold, false});
  }
  for (const auto& row : rows_) {
    lines.emplace_back();
    for (const Cell& cell : row) lines.back().push_back({printable(cell.shown), escape_of(cell.color), false});
  }
  return lines;
}

// The header moves with the last of its cells. A header that is too wide itself moves all of its cells.
void Table::move_widest_below(std::vector<Line>& lines, size_t column, size_t widest) const {
  const bool header = has_header();
  const bool moves_all = header && width(lines.front()[column].text) == widest;
  bool any_left = false;
  for (size_t row = header ? 1 : 0; row < lines.size(); ++row) {
    RenderedCell& cell = lines[row][column];
    if (moves_all || width(cell.text) == widest) cell.is_below = true;
    if (!cell.is_below && !cell.text.empty()) any_left = true;
  }
  if (header && !any_left) lines.front()[column].is_below = true;
}

// The width of each column. While a row is wider than the terminal, the widest cells are moved below their rows, except
// those of the first column.
std::vector<size_t> Table::fit(std::vector<Line>& lines, const TableStyle& style) const {
  std::vector<size_t> widths(columns_.size());
  while (true) {
    std::fill(widths.begin(), widths.end(), 0);
    for (const Line& line : lines)
      for (size_t i = 0; i < line.size(); ++i)
        if (!line[i].is_below) widths[i] = std::max(widths[i], width(line[i].text));
    const auto gaps = 2 * (widths.size() - static_cast<size_t>(std::count(widths.begin(), widths.end(), 0)));
    const auto total = std::accumulate(widths.begin(), widths.end(), gaps) - std::min<size_t>(gaps, 2);
    const auto widest = std::max_element(widths.begin() + 1, widths.end());
    if (!style.width || total <= *style.width || widest == widths.end() || *widest == 0) return widths;
    move_widest_below(lines, static_cast<size_t>(widest - widths.begin()), *widest);
  }
}

// A text that is wider than the terminal continues on further lines; words and paths are not broken.
void Table::print_below(const Line& line, const TableStyle& style) const {
  for (size_t i = 0; i < line.size(); ++i) {
    const auto& [text, color, is_below] = line[i];
    if (!is_below || text.empty()) continue;
    std::string begin = "  ";
    if (!columns_[i].header.empty()) begin += columns_[i].header + ": ";
    for (const std::string& part : broken(text, begin.size(), style)) {
      const std::string cell = style.colors == TableStyle::colored ? with_color(part, color) : part;
      std::printf("%s%s\n", begin.c_str(), cell.c_str());
      begin = "    ";
    }
  }
}

void Table::print_aligned(const TableStyle& style) const {
  std::vector<Line> all = lines();
  const std::vector<size_t> widths = fit(all, style);
  for (size_t row = 0; row < all.size(); ++row) {
    std::string out;
    std::string blanks;  // written before the next non-empty cell
    for (size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] == 0) continue;
      const auto& [cell, color, is_below] = all[row][i];
      const std::string text = is_below ? "" : cell;
      const std::string pad(widths[i] - width(text), ' ');
      const bool left = columns_[i].align == Align::left;
      if (!left) blanks += pad;
      if (!text.empty())
        out += std::exchange(blanks, "") + (style.colors == TableStyle::colored ? with_color(text, color) : text);
      blanks += (left ? pad : "") + "  ";
    }
    std::printf("%s\n", out.c_str());
    if (row > 0 || !has_header()) print_below(all[row], style);
  }
}

}  // namespace weightfs
