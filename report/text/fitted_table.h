// A table that fits into the width of a terminal. Names lose what they have in common; a name that is still too long
// has a line of its own, above its cells; columns that are worth less are left out. No name is cut.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/text/shown_names.h"
#include "report/text/style.h"

namespace weightfs::info {

struct FittedColumn {
  std::string name;
  int rank;              ///< columns with a higher rank are left out first; 0 is that of the names, 1 stays if it can
  bool is_left;          ///< else its cells end at the right
  bool is_note = false;  ///< a long cell is printed below its row
};

/// A cell for each column; the first one is the name.
using FittedRow = std::vector<std::string>;

/// A table whose rows are made twice, so that they need not be kept: to measure them, and to print them.
class FittedTable {
 public:
  /// `width` of 0: as wide as its rows, with whole names. The first column has the rank 0.
  FittedTable(std::vector<FittedColumn> columns, ShownNames names, const Style& style, size_t width);

  /// Measures a row. Columns without any text are left out.
  void measure(const FittedRow& row);
  /// Lays the table out, after all rows were measured.
  void fit();
  /// Whether all columns are there.
  bool is_complete() const { return is_complete_; }

  std::vector<std::string> header_lines() const;
  std::vector<std::string> lines_of(const FittedRow& row) const;

 private:
  struct Layout {
    std::vector<size_t> shown;  // columns, without that of the names
    size_t name = 0;            // columns of the terminal for names; 0: each has a line of its own
    bool has_essentials = true;
  };

  bool is_below(size_t column, const FittedRow& row) const;
  size_t others(const std::vector<size_t>& shown) const;
  std::vector<size_t> with_text() const;
  Layout left_over(size_t least_name) const;
  std::vector<std::string> lines(std::string_view name, const FittedRow& row) const;

  std::vector<FittedColumn> columns_;
  ShownNames names_;
  const Style& style_;
  size_t width_;
  std::vector<size_t> widths_;       // of the cells of each column
  std::vector<bool> has_text_;       // a cell of the column is not empty
  std::vector<size_t> name_widths_;  // how many rows have a shortened name of each width
  NameForm form_ = NameForm::whole;
  Layout layout_;
  bool is_complete_ = true;
};

struct FittedLines {
  std::vector<std::string> lines;  ///< the header first
  bool is_complete;                ///< whether all columns are there
};

/// The lines of a table of rows.
FittedLines fitted_table(const std::vector<FittedColumn>& columns, const std::vector<FittedRow>& rows,
                         const Style& style);

/// The lines that say that columns are left out.
std::vector<std::string> left_out_lines(const Style& style);

}  // namespace weightfs::info
