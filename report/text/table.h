// Tables on standard output: aligned on a terminal, tab-separated in a pipe (for cut and awk).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weightfs {

enum class Align { left, right };

/// The color of a cell on a terminal.
enum class CellColor { none, green, yellow, red };

/// The text of a cell on a terminal, and in a pipe. Any text is allowed; control characters are escaped.
struct Cell {
  Cell(std::string text) : shown(text), raw(std::move(text)) {}
  Cell(const char* text) : Cell(std::string(text)) {}
  Cell(std::string shown_text, std::string raw_text, CellColor is = CellColor::none)
      : shown(std::move(shown_text)), raw(std::move(raw_text)), color(is) {}

  std::string shown;
  std::string raw;
  CellColor color = CellColor::none;
};

/// A cell of a line with tabs: a tab is \t, a newline \n, a backslash \\, any other unprintable byte \xNN.
std::string tab_escaped(std::string_view text);

/// A number of bytes: "1.2 GiB" on a terminal, digits in a pipe.
Cell bytes_cell(uint64_t count);

/// The style in which a table is printed.
struct TableStyle {
  enum Form { aligned, tabs } form;
  enum Colors { colored, uncolored } colors;
  std::optional<size_t> width;  ///< columns of the terminal

  /// The style for standard output. On a terminal: aligned, with a header; a cell that does not fit is printed below
  /// its row. Otherwise a header, whose names have `_` instead of blanks, and one line per row, raw cells separated by
  /// tabs; a tab in a cell is \t, a newline \n, a backslash \\, any other unprintable byte \xNN.
  static TableStyle for_stdout();
};

/// Whether to use colors on standard output: on a terminal, unless NO_COLOR (no-color.org) or TERM=dumb is set.
bool stdout_has_colors();

class Table {
 public:
  struct Column {
    std::string header;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Adds a row; it must have a cell for each column.
  void add(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }

  bool empty() const { return rows_.empty(); }

  void print(const TableStyle& style = TableStyle::for_stdout()) const;

 private:
  struct RenderedCell {
    std::string text;
    std::string color;
    bool is_below = false;  ///< printed below its row
  };
  using Line = std::vector<RenderedCell>;

  bool has_header() const;
  void print_tabs() const;
  std::vector<Line> lines() const;
  void move_widest_below(std::vector<Line>& lines, size_t column, size_t widest) const;
  std::vector<size_t> fit(std::vector<Line>& lines, const TableStyle& style) const;
  void print_below(const Line& line, const TableStyle& style) const;
  void print_aligned(const TableStyle& style) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace weightfs
