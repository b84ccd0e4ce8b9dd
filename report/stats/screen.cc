#include "report/stats/screen.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "fs/tree/listing.h"
#include "report/stats/columns.h"
#include "report/text/fitted_table.h"
#include "report/text/table.h"

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
    shown.push_back(
        {i == 0 ? first : columns()[i].name, columns()[i].rank, columns()[i].is_left, columns()[i].is_note});
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
  std::vector<std::pair<double, std::string>> keys;
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (const TensorFigures& one : tensors) {
    constexpr double kLast = std::numeric_limits<double>::infinity();
    const Row row = row_of(one);
    if (column.number)
      keys.emplace_back(one.statistics ? -column.number(row).value_or(-kLast) : kLast, "");
    else
      keys.emplace_back(0, column.raw(row));
  }
  std::ranges::stable_sort(
      order, {}, [&](size_t i) -> const auto& { return keys[i]; });
  std::vector<TensorFigures> sorted;
  sorted.reserve(tensors.size());
  for (const size_t i : order) sorted.push_back(std::move(tensors[i]));
  tensors = std::move(sorted);
}

std::vector<std::string> table_lines(std::span<const TensorFigures> tensors, const AllGroups& groups,
                                     const info::Style& style) {
  std::vector<Row> rows;
  for (const TensorFigures& one : tensors) rows.push_back(row_of(one));
  if (groups.total.tensors > 1) rows.push_back(row_of(groups.total));
  auto [lines, is_complete] = grid_of(rows, "tensor", style);
  if (groups.layers.size() > 1) {
    std::vector<Row> layers;
    for (const GroupFigures& layer : groups.layers) layers.push_back(row_of(layer));
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

std::string tab_header() { return joined_with_tabs(column_names()); }

std::string tab_line(const TensorFigures& one) {
  const Row row = row_of(one);
  std::vector<std::string> cells;
  for (const Column& column : columns()) cells.push_back(column.raw(row));
  return joined_with_tabs(cells);
}

std::string channel_tab_header() { return "tensor\taxis\tchannel\trms\tmax\toutlier_share"; }

std::vector<std::string> channel_tab_lines(const TensorFigures& one) {
  std::vector<std::string> lines;
  const std::string name = tab_escaped(one.name);
  for (const AxisChannels& axis : one.channels)
    for (const numbers::Channel& channel : axis.largest)
      lines.push_back(fmt::format("{}\t{}\t{}\t{}\t{}\t{}", name, axis.axis, channel.index, channel.rms, channel.max,
                                  channel.outlier_share));
  return lines;
}

}  // namespace weightfs::stats
