// Pictures of tensors: cells with a number each.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include "report/text/map_of.h"
#include "serve/api/handlers.h"

namespace weightfs::api {
namespace {

using numbers::Elements;
using numbers::Grid;
using numbers::MatrixView;
using numbers::Window;

constexpr uint64_t kMaxSide = 1024;  // cells
constexpr uint64_t kMaxValues = 64;  // rows, and columns

struct Matrix {
  MatrixView view;
  Window window;
  std::string down;
  std::string right;
};

Accepted<Window> window_of(const Query& query, const MatrixView& matrix) {
  const auto given = ACCEPT(query.numbers("window"));
  if (given.empty()) return Window{0, 0, matrix.rows, matrix.columns};
  if (given.size() != 4 || given[0] >= given[1] || given[2] >= given[3] || given[1] > matrix.rows ||
      given[3] > matrix.columns)
    return httpd::refused(400, fmt::format("window: rows and columns inside {} x {}", matrix.rows, matrix.columns));
  return Window{given[0], given[2], given[1] - given[0], given[3] - given[2]};
}

Accepted<Matrix> matrix_of(const Query& query, ShapeView shape) {
  Matrix out{numbers::matrix_of(shape), {}, "", fmt::format("axis {}", shape.empty() ? 0 : shape.size() - 1)};
  if (shape.size() > 1) out.down = shape.size() == 2 ? "axis 0" : fmt::format("axes 0 to {}", shape.size() - 2);
  if (query.has("down") || query.has("right")) {
    const uint64_t down = ACCEPT(query.number("down", 0, 64)), right = ACCEPT(query.number("right", 0, 64));
    const auto at = ACCEPT(query.numbers("at"));
    Shape index(at.begin(), at.end());
    if (index.size() > shape.size()) return httpd::refused(400, "at: more numbers than axes");
    index.resize(shape.size());
    out.view =
        ACCEPT(accepted(numbers::matrix_of(shape, static_cast<size_t>(down), static_cast<size_t>(right), index)));
    out.down = fmt::format("axis {}", down);
    out.right = fmt::format("axis {}", right);
  }
  out.window = ACCEPT(window_of(query, out.view));
  return out;
}

Accepted<plot::Metric> metric_of(const Query& query) {
  constexpr std::array kMetrics = {plot::Metric::largest, plot::Metric::rms, plot::Metric::mean};
  return kMetrics[ACCEPT(query.choice("metric", {"largest", "rms", "mean"}))];
}

Accepted<Grid> grid_of(const Call& call, const Named& named, const Matrix& matrix, Mode mode) {
  const Elements elements = ACCEPT(accepted(Elements::of(named.tensor.tensor)));
  const numbers::GridOptions options{
      .rows = static_cast<size_t>(std::max<uint64_t>(1, ACCEPT(call.query.number("rows", 512, kMaxSide)))),
      .columns = static_cast<size_t>(std::max<uint64_t>(1, ACCEPT(call.query.number("columns", 512, kMaxSide)))),
      .sample = mode == Mode::sample,
      .threads = processors(kThreads)};
  const uint64_t total = elements.bytes(matrix.window.rows * matrix.window.columns);
  std::atomic<uint64_t> done = 0;
  return accepted(numbers::grid_of(elements, matrix.view, matrix.window, options, [&](uint64_t bytes) {
    call.report("reading", done.fetch_add(bytes) + bytes, total);
  }));
}

// One byte for each cell: 0 without a finite number, else 1 to 255 from the lower to the upper limit.
std::string bytes_of(const std::vector<double>& values, const plot::Scale& scale) {
  std::string out(values.size(), '\0');
  const double range = scale.high - scale.low;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    const double place = range > 0 ? std::clamp((values[i] - scale.low) / range, 0.0, 1.0) : 0.0;
    out[i] = static_cast<char>(1 + std::lround(place * 254));
  }
  return out;
}

Accepted<std::vector<double>> cells_of(const Call& call, const Named& named, const Matrix& matrix, Mode mode,
                                       Grid& grid) {
  const auto second = ACCEPT(second_tensor_of(call));
  const plot::Metric metric = second ? plot::Metric::mean : ACCEPT(metric_of(call.query));
  if (second && !(second->tensor.tensor.shape == named.tensor.tensor.shape))
    return httpd::refused(422, "the tensors have other shapes");
  grid = ACCEPT(grid_of(call, named, matrix, mode));
  std::vector<double> values;
  for (const numbers::GridCell& cell : grid.cells) values.push_back(plot::value_of(cell, metric));
  if (!second) return values;
  const Grid other = ACCEPT(grid_of(call, *second, matrix, mode));
  for (size_t i = 0; i < values.size(); ++i) values[i] -= plot::value_of(other.cells[i], metric);
  return values;
}

Value limit_of(const std::vector<double>& values, bool is_upper) {
  double limit = std::numeric_limits<double>::quiet_NaN();
  for (const double value : values)
    if (std::isfinite(value))
      limit = std::isnan(limit) ? value : is_upper ? std::max(limit, value) : std::min(limit, value);
  return number_or_null(limit);
}

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "inf" : "-inf";
}

}  // namespace

Accepted<Content> heat_map(const Call& call) {
  const Named named = ACCEPT(tensor_of(call));
  const Mode mode = ACCEPT(mode_of(call.query));
  const Matrix matrix = ACCEPT(matrix_of(call.query, named.tensor.tensor.shape));
  Grid grid;
  const auto values = ACCEPT(cells_of(call, named, matrix, mode, grid));
  const bool is_signed = ACCEPT(metric_of(call.query)) != plot::Metric::rms || call.query.has("t2");
  plot::Scale scale = plot::scale_of(values, is_signed);
  scale.low = ACCEPT(call.query.real("low")).value_or(scale.low);
  scale.high = ACCEPT(call.query.real("high")).value_or(scale.high);
  const Window& window = matrix.window;
  Content content{.type = "application/octet-stream", .bytes = bytes_of(values, scale)};
  content.grid = to_json_line(
      map_of({{"rows", grid.rows},
              {"columns", grid.columns},
              {"low", scale.low},
              {"high", scale.high},
              {"min", limit_of(values, false)},
              {"max", limit_of(values, true)},
              {"window", List{window.row, window.row + window.rows, window.column, window.column + window.columns}},
              {"matrix", List{matrix.view.rows, matrix.view.columns}},
              {"sample", grid.is_sample},
              {"read", grid.read},
              {"signed", is_signed},
              {"down", matrix.down},
              {"right", matrix.right}}));
  return content;
}

Accepted<Content> values(const Call& call) {
  const Named named = ACCEPT(tensor_of(call));
  const Matrix matrix = ACCEPT(matrix_of(call.query, named.tensor.tensor.shape));
  const Window& window = matrix.window;
  if (window.rows > kMaxValues || window.columns > kMaxValues)
    return httpd::refused(400, fmt::format("window: at most {} rows and columns", kMaxValues));
  const Elements elements = ACCEPT(accepted(Elements::of(named.tensor.tensor))).for_samples();
  List rows;
  for (uint64_t row = window.row; row < window.row + window.rows; ++row) {
    std::vector<double> numbers(static_cast<size_t>(window.columns));
    const uint64_t first =
        matrix.view.offset + row * matrix.view.row_stride + window.column * matrix.view.column_stride;
    const bool is_contiguous = matrix.view.column_stride == 1;
    const size_t piece = is_contiguous ? numbers.size() : 1;
    for (size_t i = 0; i < numbers.size(); i += piece) {
      const auto read = elements.read(first + i * matrix.view.column_stride, std::span(numbers).subspan(i, piece));
      if (!read) return tl::unexpected<Refusal>(refusal_of(read.error()));
    }
    List out;
    for (const double number : numbers)
      out.emplace_back(std::isfinite(number) ? Value(number) : Value(value_text(number)));
    rows.emplace_back(std::move(out));
  }
  return json_content(
      map_of({{"window", List{window.row, window.row + window.rows, window.column, window.column + window.columns}},
              {"rows", std::move(rows)}}));
}

}  // namespace weightfs::api
