// Rows and columns on standard output: for a person on a terminal, for cut and awk in a pipe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weightfs {

enum class Align { left, right };

/// What a cell says of the thing that it is about; a terminal shows it as a colour.
enum class Mood { plain, good, doubtful, bad };

/// What a cell shows to people, and what it says to programs. Any text may be given: none reaches a terminal raw.
struct Cell {
  Cell(std::string text) : shown(text), raw(std::move(text)) {}
  Cell(const char* text) : Cell(std::string(text)) {}
  Cell(std::string for_people, std::string for_programs, Mood is = Mood::plain)
      : shown(std::move(for_people)), raw(std::move(for_programs)), mood(is) {}

  std::string shown;
  std::string raw;
  Mood mood = Mood::plain;
};

/// A number of bytes: "1.2 GiB" for people, its digits for programs.
Cell bytes_cell(uint64_t count);

/// How a table is printed.
struct Look {
  enum Form { aligned, tabs } form;
  enum Paint { colours, plain } paint;
  size_t indent;
  std::optional<size_t> room;  ///< columns of the terminal

  /// As suits standard output. On a terminal: aligned, under a header; a cell that does not fit stands under its row.
  /// Else a line for each row, its cells raw and with a tab between them, and no header; a tab in a cell is \t, a
  /// newline \n, a backslash \\, any other byte that cannot be printed \xNN.
  static Look of_stdout();
  /// As part of a text: aligned, whatever it is printed to.
  static Look in_a_text();
};

/// Whether standard output shows colours: a terminal, unless NO_COLOR (no-color.org) or TERM=dumb says otherwise.
bool stdout_has_colours();

class Table {
 public:
  struct Column {
    std::string header;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as there are columns.
  void add(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }

  bool empty() const { return rows_.empty(); }

  void print(const Look& look = Look::of_stdout()) const;

 private:
  struct Printed {
    std::string text;
    std::string colour;
    bool is_below = false;  ///< under its row
  };
  using Line = std::vector<Printed>;

  bool has_header() const;
  std::vector<Line> lines() const;
  void move_widest_below(std::vector<Line>& lines, size_t column, size_t widest) const;
  std::vector<size_t> fit(std::vector<Line>& lines, const Look& look) const;
  void print_below(const Line& line, const Look& look) const;
  void print_aligned(const Look& look) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace weightfs
