#include "report/text/fitted_table.h"

#include <algorithm>

namespace weightfs::info {
namespace {

constexpr size_t kMinKeptName = 12;  // characters of a name that are kept

struct Shown {
  const FittedColumn* column;
  std::vector<std::string> cells;  // the header first
  size_t width;
};

std::vector<Shown> shown_columns(const std::vector<FittedColumn>& columns,
                                 const std::vector<std::vector<std::string>>& rows) {
  std::vector<Shown> out;
  for (size_t i = 0; i < columns.size(); ++i) {
    Shown one{&columns[i], {columns[i].name}, width_of(columns[i].name)};
    bool is_empty = true;
    for (const auto& row : rows) {
      one.cells.push_back(row[i]);
      one.width = std::max(one.width, width_of(row[i]));
      is_empty = is_empty && row[i].empty();
    }
    if (!is_empty) out.push_back(std::move(one));
  }
  return out;
}

size_t total_width(const std::vector<Shown>& shown) {
  size_t sum = 0;
  for (const Shown& one : shown) sum += one.width + kGap;
  return sum - kGap;
}

// Returns whether all columns are left.
bool fit(std::vector<Shown>& shown, size_t width) {
  const size_t whole_name = shown.front().width;
  for (bool is_complete = true;; is_complete = false) {
    const size_t others = total_width(shown) - shown.front().width;
    if (others + std::min(whole_name, std::max(kMinKeptName, width / 3)) <= width) {
      shown.front().width = std::min(whole_name, width - others);
      return is_complete;
    }
    const auto last = std::ranges::max_element(shown, {}, [](const Shown& one) { return one.column->rank; });
    if (last->column->rank == 0) return is_complete;
    shown.erase(last);
  }
}

}  // namespace

FittedLines fitted_table(const std::vector<FittedColumn>& columns, const std::vector<std::vector<std::string>>& rows,
                         const Style& style) {
  std::vector<Shown> shown = shown_columns(columns, rows);
  if (shown.empty()) return {{}, true};
  FittedLines out{{}, fit(shown, style.width)};
  for (size_t row = 0; row <= rows.size(); ++row) {
    std::string line;
    for (const Shown& one : shown) {
      const std::string cell =
          one.column->rank == 0 ? shortened_name(one.cells[row], one.width, style) : one.cells[row];
      line += (line.empty() ? "" : std::string(kGap, ' ')) +
              (one.column->is_left ? left(cell, one.width) : right(cell, one.width));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out.lines.push_back(row == 0 ? painted(line, Paint::bold) : line);
  }
  return out;
}

std::vector<std::string> left_out_lines(const Style& style) {
  std::vector<std::string> lines =
      wrapped("Columns are left out; a wider terminal, a pipe or --json has them all.", style.width, style);
  for (std::string& line : lines) line = painted(line, Paint::dim);
  return lines;
}

}  // namespace weightfs::info
