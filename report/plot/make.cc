#include "report/plot/make.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/cancel.h"
#include "base/text.h"
#include "fs/tree/listing.h"
#include "numbers/channels.h"
#include "numbers/deviation.h"
#include "numbers/statistics.h"

namespace weightfs::plot {
namespace {

using numbers::Elements;
using numbers::GridCell;

constexpr const char* kSampled = "sampled";
constexpr double kLimit = 0.999;  // the quantile of absolutes at the end of a scale

std::string title_of(const NamedTensor& named) {
  return fmt::format("{}  {} {}", printable(named.name), dtype_text(named.tensor), shape_text(named.tensor.shape));
}

struct Matrix {
  numbers::MatrixView view;
  std::string down;
  std::string right;
};

// The names of the axes, and where their elements are.
Result<Matrix> matrix_of(ShapeView shape, const Choices& choices) {
  if (!choices.axes) {
    Matrix out{numbers::matrix_of(shape), "", fmt::format("axis {}", shape.empty() ? 0 : shape.size() - 1)};
    if (shape.size() == 2) out.down = "axis 0";
    if (shape.size() > 2) out.down = fmt::format("axes 0 to {}", shape.size() - 2);
    return out;
  }
  const auto [down, right] = *choices.axes;
  Shape index(choices.index.begin(), choices.index.end());
  if (index.size() > shape.size())
    return failure(Code::not_found,
                   fmt::format("--index has {} numbers, the tensor {} axes", index.size(), shape.size()));
  index.resize(shape.size());
  return Matrix{TRY(numbers::matrix_of(shape, down, right, index)), fmt::format("axis {}", down),
                fmt::format("axis {}", right)};
}

Result<numbers::Window> window_of(const numbers::MatrixView& matrix, const Choices& choices) {
  if (!choices.window) return numbers::Window{0, 0, matrix.rows, matrix.columns};
  const auto [first_row, end_row, first_column, end_column] = *choices.window;
  if (end_row > matrix.rows || end_column > matrix.columns || first_row >= end_row || first_column >= end_column)
    return failure(Code::not_found, fmt::format("the window is not inside: there are {} rows and {} columns",
                                                matrix.rows, matrix.columns));
  return numbers::Window{first_row, first_column, end_row - first_row, end_column - first_column};
}

// A range for a single number, which is in its middle.
std::pair<double, double> around(double value) {
  constexpr double kMost = std::numeric_limits<double>::max();
  const double margin = value == 0 ? 1 : std::abs(value) / 2;
  return {std::max(value - margin, -kMost), std::min(value + margin, kMost)};
}

}  // namespace

Result<void> check_counterpart(const NamedTensor& tensor, const NamedTensor* other) {
  if (other == nullptr) return failure(Code::not_found, "the other model has no tensor of this name");
  if (other->tensor.source.refused()) return failure(Code::corrupt, "refused in the other model: see its warnings.txt");
  if (!(other->tensor.shape == tensor.tensor.shape))
    return failure(Code::not_found, "it has another shape in the other model");
  return {};
}

double value_of(const GridCell& cell, Metric metric) {
  if (metric == Metric::rms) return cell.rms;
  if (metric == Metric::mean) return cell.mean;
  return std::abs(cell.min) > std::abs(cell.max) ? cell.min : cell.max;
}

Scale scale_of(const std::vector<double>& values, bool has_signs) {
  std::vector<double> absolutes;
  for (const double value : values)
    if (std::isfinite(value)) absolutes.push_back(std::abs(value));
  if (absolutes.empty()) return {has_signs ? Palette::blue_orange : Palette::cividis, 0, 1};
  const auto place = static_cast<ptrdiff_t>(std::lround(kLimit * static_cast<double>(absolutes.size() - 1)));
  std::ranges::nth_element(absolutes, absolutes.begin() + place);
  double limit = absolutes[static_cast<size_t>(place)];
  if (limit == 0) limit = std::ranges::max(absolutes);
  if (limit == 0) limit = 1;
  return {has_signs ? Palette::blue_orange : Palette::cividis, has_signs ? -limit : 0, limit};
}

const char* label_of(Metric metric) {
  switch (metric) {
    case Metric::largest:
      return "largest by absolute";
    case Metric::rms:
      return "RMS";
    case Metric::mean:
      return "mean";
    case Metric::sparsity:
      return "share of zeros";
    case Metric::bits:
      return "bits per element";
    case Metric::type:
      return "type";
    case Metric::snr:
      return "SNR (dB)";
  }
  return "";
}

Result<HeatMap> heat_map_of(const NamedTensor& named, const Choices& choices) {
  const Metric metric = choices.metric.value_or(Metric::largest);
  if (metric != Metric::largest && metric != Metric::rms && metric != Metric::mean)
    return failure(Code::unsupported, fmt::format("{} is for an overview of a model", label_of(metric)));
  const Elements elements = TRY(Elements::of(named.tensor));
  const Matrix matrix = TRY(matrix_of(named.tensor.shape, choices));
  const numbers::Window window = TRY(window_of(matrix.view, choices));
  const numbers::GridOptions options{
      .rows = choices.rows, .columns = choices.columns, .sample = choices.sample, .threads = choices.threads};
  const numbers::Grid grid = TRY(numbers::grid_of(elements, matrix.view, window, options, choices.count_bytes));
  HeatMap map;
  map.title = title_of(named);
  if (grid.is_sample) map.note = kSampled;
  map.right = {matrix.right, static_cast<double>(window.column), static_cast<double>(window.column + window.columns)};
  map.down = {matrix.down, static_cast<double>(window.row), static_cast<double>(window.row + window.rows)};
  map.rows = grid.rows;
  map.columns = grid.columns;
  for (const GridCell& cell : grid.cells) map.values.push_back(value_of(cell, metric));
  map.scale = scale_of(map.values, metric != Metric::rms);
  map.scale_label = label_of(metric);
  return map;
}

Result<Curves> histogram_of(const std::vector<NamedTensor>& tensors, const Choices& choices) {
  Curves curves;
  curves.title = tensors.size() == 1 ? title_of(tensors.front()) : fmt::format("{} tensors", tensors.size());
  curves.label = "share of the elements";
  curves.are_steps = true;
  std::vector<numbers::Distribution> distributions;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const NamedTensor& named : tensors) {
    if (is_cancelled()) return cancelled();
    const Elements elements = TRY(Elements::of(named.tensor));
    numbers::Figures figures = TRY(numbers::figures_of(
        elements, named.tensor.shape, {.sample = choices.sample, .threads = choices.threads}, choices.count_bytes));
    curves.is_sample = curves.is_sample || figures.statistics.is_sample();
    if (figures.statistics.finite) {
      low = std::min(low, figures.statistics.finite->moments.min());
      high = std::max(high, figures.statistics.finite->moments.max());
    }
    distributions.push_back(std::move(figures.distribution));
  }
  if (curves.is_sample) curves.note = kSampled;
  if (!(low <= high)) return failure(Code::unsupported, "there is no finite number");
  if (low == high) std::tie(low, high) = around(low);
  curves.right = {"value", low, high, {}};
  constexpr size_t kIntervals = 128;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Curves::Line line{printable(tensors[i].name), {}};
    for (const uint64_t count : distributions[i].histogram(low, high, kIntervals))
      line.values.push_back(static_cast<double>(count) /
                            static_cast<double>(std::max<uint64_t>(distributions[i].count, 1)));
    curves.lines.push_back(std::move(line));
  }
  return curves;
}

Result<Curves> channels_of(const NamedTensor& named, const std::vector<NamedTensor>& against, const Choices& choices) {
  const ShapeView shape = named.tensor.shape;
  if (shape.empty()) return failure(Code::unsupported, "a scalar has no channels");
  const size_t axis = choices.axis.value_or(shape.size() - 1);
  if (axis >= shape.size()) return failure(Code::not_found, fmt::format("the tensor has only {} axes", shape.size()));
  const Elements elements = TRY(Elements::of(named.tensor));
  const auto channels = TRY(numbers::channels_of(elements, shape, axis, choices.threads, choices.count_bytes));
  Curves curves;
  curves.title = title_of(named);
  curves.right = {
      fmt::format("channel of axis {}", axis), 0, static_cast<double>(std::max<size_t>(channels.size(), 1) - 1), {}};
  curves.label = "absolute";
  curves.lines = {{"RMS", {}}, {"largest", {}}};
  const uint64_t each = elements.count() / std::max<size_t>(channels.size(), 1);
  if (elements.count() == 0) return curves;
  for (const numbers::Channel& channel : channels) {
    const bool is_known = channel.not_finite < each;
    if (channel.not_finite > 0 && is_known) curves.note = "NaN and infinities as 0";
    curves.lines[0].values.push_back(is_known ? channel.rms : kNoNumber);
    curves.lines[1].values.push_back(is_known ? channel.max : kNoNumber);
  }
  if (!against.empty()) {
    const auto other = std::ranges::find(against, named.name, &NamedTensor::name);
    TRY_VOID(check_counterpart(named, other == against.end() ? nullptr : &*other));
    const Elements b = TRY(Elements::of(other->tensor));
    auto errors = numbers::channel_errors_of(elements, b, shape, axis, choices.threads, choices.count_bytes);
    if (!errors) return tl::unexpected(errors.error().error);
    curves.lines.push_back({"RMS of the difference", std::move(*errors)});
  }
  return curves;
}

}  // namespace weightfs::plot
