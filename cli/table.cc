#include "cli/table.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace weightfs {
namespace {

// Characters, not bytes; what is printed is UTF-8.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// SGR (ECMA-48): bold, green, yellow, red.
constexpr const char* kBold = "\033[1m";
constexpr const char* kPlain = "\033[0m";
const char* colour_of(Mood mood) {
  switch (mood) {
    case Mood::good:
      return "\033[32m";
    case Mood::doubtful:
      return "\033[33m";
    case Mood::bad:
      return "\033[31m";
    case Mood::plain:
      break;
  }
  return "";
}

std::string painted(const std::string& text, const std::string& colour) {
  return colour.empty() ? text : colour + text + kPlain;
}

std::string for_tabs(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t run = std::min(text.find_first_of("\t\n\\", i), text.size());
    out += printable(text.substr(i, run - i));
    if (run < text.size()) out += text[run] == '\t' ? "\\t" : text[run] == '\n' ? "\\n" : "\\\\";
    i = run + 1;
  }
  return out;
}

}  // namespace

Cell bytes_cell(uint64_t count) { return {human_size(count), std::to_string(count)}; }

bool stdout_has_colours() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  return ::isatty(STDOUT_FILENO) == 1 && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

Look Look::of_stdout() {
  return {::isatty(STDOUT_FILENO) == 1 ? aligned : tabs, stdout_has_colours() ? colours : plain, 0};
}

Look Look::in_a_text() { return {aligned, plain, 2}; }

void Table::print(const Look& look) const {
  if (look.form == Look::aligned) return print_aligned(look);
  for (const auto& row : rows_) {
    std::string line;
    for (const Cell& cell : row) line += str(&cell == row.data() ? "" : "\t", for_tabs(cell.raw));
    std::printf("%s\n", line.c_str());
  }
}

std::vector<Table::Line> Table::lines() const {
  std::vector<Line> lines;
  const auto has_header = [](const Column& column) { return !column.header.empty(); };
  if (std::any_of(columns_.begin(), columns_.end(), has_header)) {
    lines.emplace_back();
    for (const Column& column : columns_) lines.back().push_back({column.header, kBold});
  }
  for (const auto& row : rows_) {
    lines.emplace_back();
    for (const Cell& cell : row) lines.back().push_back({printable(cell.shown), colour_of(cell.mood)});
  }
  return lines;
}

void Table::print_aligned(const Look& look) const {
  const std::vector<Line> all = lines();
  std::vector<size_t> widths(columns_.size());
  for (const Line& line : all)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i].text));
  for (const Line& line : all) {
    std::string out(look.indent, ' ');
    std::string blanks;  // written only when something follows
    for (size_t i = 0; i < line.size(); ++i) {
      const auto& [text, colour] = line[i];
      const std::string pad(widths[i] - width(text), ' ');
      const bool left = columns_[i].align == Align::left;
      if (!left) blanks += pad;
      if (!text.empty())
        out += std::exchange(blanks, "") + (look.paint == Look::colours ? painted(text, colour) : text);
      blanks += (left ? pad : "") + "  ";
    }
    std::printf("%s\n", out.c_str());
  }
}

}  // namespace weightfs
