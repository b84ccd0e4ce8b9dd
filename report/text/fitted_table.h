// A table that fits into the width of a terminal: columns that are worth less are left out, and names are shortened.
#pragma once

#include <string>
#include <vector>

#include "report/text/style.h"

namespace weightfs::info {

struct FittedColumn {
  std::string name;
  int rank;      ///< columns with a higher rank are left out first; 0 stays, and is shortened
  bool is_left;  ///< else its cells end at the right
};

struct FittedLines {
  std::vector<std::string> lines;  ///< the header first
  bool is_complete;                ///< whether all columns are there
};

/// Rows of a cell for each column; columns without any text are left out. The first column has the rank 0.
FittedLines fitted_table(const std::vector<FittedColumn>& columns, const std::vector<std::vector<std::string>>& rows,
                         const Style& style);

/// The lines that say that columns are left out.
std::vector<std::string> left_out_lines(const Style& style);

}  // namespace weightfs::info
