#include "cli/stats/screen.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "cli/console/table.h"
#include "cli/stats/columns.h"
#include "fs/listing.h"

namespace weightfs::stats {
namespace {

constexpr size_t kMinName = 12;       // characters of a name that a table keeps
constexpr size_t kShownColumns = 13;  // of columns(); the others are for pipes

std::string joined_with_tabs(const std::vector<std::string>& cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) line += (i == 0 ? "" : "\t") + tab_escaped(cells[i]);
  return line;
}

// Rows of cells with the same columns. What does not fit into the width is left out, by its rank.
class Grid {
 public:
  Grid(const std::vector<Row>& rows, const char* first, const info::Style& style) : style_(style) {
    for (size_t i = 0; i < kShownColumns; ++i) {
      const Column& column = columns()[i];
      std::vector<std::string> cells = {i == 0 ? first : column.name};
      size_t width = info::width_of(cells.front());
      bool is_empty = true;
      for (const Row& row : rows) {
        cells.push_back(column.shown(row, style));
        width = std::max(width, info::width_of(cells.back()));
        is_empty = is_empty && cells.back().empty();
      }
      if (!is_empty) shown_.push_back({&column, std::move(cells), width});
    }
    fit();
  }

  bool is_complete() const { return is_complete_; }

  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    for (size_t row = 0; row < shown_.front().cells.size(); ++row) {
      std::string line;
      for (const Shown& one : shown_) {
        const std::string cell =
            one.column->rank == 0 ? info::shortened(one.cells[row], one.width, style_) : one.cells[row];
        line += (line.empty() ? "" : "  ") +
                (one.column->is_left ? info::left(cell, one.width) : info::right(cell, one.width));
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out.push_back(row == 0 ? info::painted(line, info::Paint::bold) : line);
    }
    return out;
  }

 private:
  struct Shown {
    const Column* column;
    std::vector<std::string> cells;  // the header first
    size_t width;
  };

  size_t total() const {
    size_t sum = 0;
    for (const Shown& one : shown_) sum += one.width + info::kGap;
    return sum - info::kGap;
  }

  void fit() {
    Shown& name = shown_.front();
    const size_t whole_name = name.width;
    while (true) {
      const size_t others = total() - shown_.front().width;
      if (others + std::min(whole_name, std::max(kMinName, style_.width / 3)) <= style_.width) {
        shown_.front().width = std::min(whole_name, style_.width - others);
        return;
      }
      const auto last = std::ranges::max_element(shown_, {}, [](const Shown& one) { return one.column->rank; });
      if (last->column->rank == 0) return;
      is_complete_ = false;
      shown_.erase(last);
    }
  }

  const info::Style& style_;
  std::vector<Shown> shown_;
  bool is_complete_ = true;
};

}  // namespace

std::vector<std::string> column_names() {
  std::vector<std::string> names;
  for (const Column& column : columns()) names.emplace_back(column.name);
  return names;
}

void sort_by(std::string_view name, std::vector<TensorFigures>& tensors) {
  const Column& column = *std::ranges::find(columns(), name, &Column::name);
  const auto number = [&](const TensorFigures& one) {
    const double value = column.number(row_of(one)).value_or(-std::numeric_limits<double>::infinity());
    return one.statistics ? value : -std::numeric_limits<double>::infinity();
  };
  if (column.number)
    std::ranges::stable_sort(tensors, std::ranges::greater(), number);
  else
    std::ranges::stable_sort(tensors, {}, [&](const TensorFigures& one) { return column.raw(row_of(one)); });
}

std::vector<std::string> table_lines(const AllFigures& figures, const info::Style& style) {
  std::vector<Row> rows;
  for (const TensorFigures& one : figures.tensors) rows.push_back(row_of(one));
  if (figures.total.tensors > 1) rows.push_back(row_of(figures.total));
  const Grid tensors(rows, "tensor", style);
  std::vector<std::string> lines = tensors.lines();
  bool is_complete = tensors.is_complete();
  if (figures.layers.size() > 1) {
    std::vector<Row> layers;
    for (const GroupFigures& layer : figures.layers) layers.push_back(row_of(layer));
    const Grid grid(layers, "layer", style);
    lines.emplace_back();
    for (const std::string& line : grid.lines()) lines.push_back(line);
    is_complete = is_complete && grid.is_complete();
  }
  if (!is_complete)
    for (const std::string& line :
         info::wrapped("Columns are left out; a wider terminal, a pipe or --json has them all.", style.width, style))
      lines.push_back(info::painted(line, info::Paint::dim));
  return lines;
}

std::vector<std::string> channel_lines(const TensorFigures& one, const info::Style& style) {
  std::vector<std::string> lines;
  for (const AxisChannels& axis : one.channels) {
    lines.emplace_back();
    lines.push_back(info::painted(
        fmt::format("Channels of axis {} ({}), the largest first{}", axis.axis, one.tensor.shape[axis.axis],
                    axis.dead == 0 ? "" : fmt::format("; {} of zeros", axis.dead)),
        info::Paint::bold));
    lines.push_back(fmt::format("  {:>10}  {:>10}  {:>10}  {:>10}", "channel", "rms", "max", "outliers"));
    for (const numbers::Channel& channel : axis.largest)
      lines.push_back(fmt::format(
          "  {:>10}  {:>10}  {:>10}  {:>10}", channel.index, figure_text(channel.rms), figure_text(channel.max),
          channel.outlier_share == 0 ? "" : fmt::format("{:.3g} %", 100 * channel.outlier_share)));
  }
  if (!one.no_channels.empty()) lines.push_back("  " + info::clean(one.no_channels, style));
  return lines;
}

std::vector<std::string> tab_lines(const AllFigures& figures) {
  std::vector<std::string> lines = {joined_with_tabs(column_names())};
  for (const TensorFigures& one : figures.tensors) {
    std::vector<std::string> cells;
    for (const Column& column : columns()) cells.push_back(column.raw(row_of(one)));
    lines.push_back(joined_with_tabs(cells));
  }
  return lines;
}

std::vector<std::string> channel_tab_lines(const AllFigures& figures) {
  std::vector<std::string> lines = {"tensor\taxis\tchannel\trms\tmax\toutlier_share"};
  for (const TensorFigures& one : figures.tensors)
    for (const AxisChannels& axis : one.channels)
      for (const numbers::Channel& channel : axis.largest)
        lines.push_back(joined_with_tabs({one.name, std::to_string(axis.axis), std::to_string(channel.index),
                                          fmt::format("{}", channel.rms), fmt::format("{}", channel.max),
                                          fmt::format("{}", channel.outlier_share)}));
  return lines;
}

}  // namespace weightfs::stats
