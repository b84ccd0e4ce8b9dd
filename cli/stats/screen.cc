#include "cli/stats/screen.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "cli/console/table.h"
#include "cli/info/fitted_table.h"
#include "cli/stats/columns.h"
#include "fs/listing.h"

namespace weightfs::stats {
namespace {

constexpr size_t kShownColumns = 13;  // of columns(); the others are for pipes

std::string joined_with_tabs(const std::vector<std::string>& cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) line += (i == 0 ? "" : "\t") + tab_escaped(cells[i]);
  return line;
}

info::FittedLines grid_of(const std::vector<Row>& rows, const char* first, const info::Style& style) {
  std::vector<info::FittedColumn> shown;
  for (size_t i = 0; i < kShownColumns; ++i)
    shown.push_back({i == 0 ? first : columns()[i].name, columns()[i].rank, columns()[i].is_left});
  std::vector<std::vector<std::string>> cells;
  for (const Row& row : rows) {
    cells.emplace_back();
    for (size_t i = 0; i < kShownColumns; ++i) cells.back().push_back(columns()[i].shown(row, style));
  }
  return info::fitted_table(shown, cells, style);
}

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
  auto [lines, is_complete] = grid_of(rows, "tensor", style);
  if (figures.layers.size() > 1) {
    std::vector<Row> layers;
    for (const GroupFigures& layer : figures.layers) layers.push_back(row_of(layer));
    const info::FittedLines grid = grid_of(layers, "layer", style);
    lines.emplace_back();
    lines.insert(lines.end(), grid.lines.begin(), grid.lines.end());
    is_complete = is_complete && grid.is_complete;
  }
  if (!is_complete)
    for (std::string& line : info::left_out_lines(style)) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> channel_lines(const TensorFigures& one, const info::Style& style) {
  static const std::vector<info::FittedColumn> columns = {
      {"channel", 0, false}, {"rms", 1, false}, {"max", 2, false}, {"outliers", 3, false}};
  std::vector<std::string> lines;
  for (const AxisChannels& axis : one.channels) {
    lines.emplace_back();
    const std::string title =
        fmt::format("Channels of axis {} ({}), the largest first{}", axis.axis, one.tensor.shape[axis.axis],
                    axis.dead == 0 ? "" : fmt::format("; {} of zeros", axis.dead));
    for (const std::string& line : info::wrapped(title, style.width, style))
      lines.push_back(info::painted(line, info::Paint::bold));
    std::vector<std::vector<std::string>> rows;
    for (const numbers::Channel& channel : axis.largest)
      rows.push_back({std::to_string(channel.index), figure_text(channel.rms), figure_text(channel.max),
                      channel.outlier_share == 0 ? "" : fmt::format("{:.3g} %", 100 * channel.outlier_share)});
    info::Style inner = style;
    inner.width -= info::kIndent;
    for (const std::string& line : info::fitted_table(columns, rows, inner).lines)
      lines.push_back(std::string(info::kIndent, ' ') + line);
  }
  if (one.no_channels.empty()) return lines;
  for (const std::string& line : info::wrapped(info::clean(one.no_channels, style), style.width - info::kIndent, style))
    lines.push_back(std::string(info::kIndent, ' ') + line);
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
