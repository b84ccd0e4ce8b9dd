#include "report/plot/raster/coverage.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace weightfs::plot {
namespace {

constexpr double kFarthest = 1e6;               // a coordinate beyond it is as good as this one
constexpr size_t kMostCells = size_t{1} << 18;  // of a band

}  // namespace

Coverage::Coverage(size_t width, size_t height)
    : width_(static_cast<double>(width)), height_(static_cast<double>(height)), left_(width_), top_(height_) {}

void Coverage::add(std::span<const Point> polygon) {
  const auto is_finite = [](const Point& point) { return std::isfinite(point.first) && std::isfinite(point.second); };
  if (!std::ranges::all_of(polygon, is_finite)) return;
  const auto near = [](double value) { return std::clamp(value, -kFarthest, kFarthest); };
  for (size_t i = 0; i < polygon.size(); ++i) {
    const auto& [x0, y0] = polygon[i];
    const auto& [x1, y1] = polygon[(i + 1) % polygon.size()];
    left_ = std::min(left_, std::clamp(std::floor(near(x0)), 0.0, width_));
    right_ = std::max(right_, std::clamp(std::ceil(near(x0)), 0.0, width_));
    top_ = std::min(top_, std::clamp(std::floor(near(y0)), 0.0, height_));
    bottom_ = std::max(bottom_, std::clamp(std::ceil(near(y0)), 0.0, height_));
    if (y0 != y1) edges_.push_back({near(x0), near(y0), near(x1), near(y1)});
  }
}

void Coverage::each_row(const std::function<void(size_t, size_t, std::span<const uint8_t>)>& paint) const {
  if (left_ >= right_ || top_ >= bottom_) return;
  const auto left = static_cast<size_t>(left_), columns = static_cast<size_t>(right_) - left;
  const auto bottom = static_cast<size_t>(bottom_);
  const size_t most_rows = std::max<size_t>(kMostCells / columns, 1);
  std::vector<uint8_t> coverage(columns);
  for (auto top = static_cast<size_t>(top_); top < bottom; top += most_rows) {
    Band band{top, std::min(most_rows, bottom - top), left, columns, {}};
    band.sums.assign(band.rows * columns, 0.0F);
    for (const Edge& edge : edges_) add_edge(band, edge);
    for (size_t row = 0; row < band.rows; ++row) {
      float sum = 0;
      for (size_t column = 0; column < columns; ++column) {
        sum += band.sums[row * columns + column];
        coverage[column] = static_cast<uint8_t>(std::min(std::abs(sum), 1.0F) * 255 + 0.5F);
      }
      paint(top + row, left, coverage);
    }
  }
}

// Clips an edge to the rows of a band, and to its columns: a part on the left covers all columns, one on the right
// none.
void Coverage::add_edge(Band& band, const Edge& edge) {
  const double rows = static_cast<double>(band.rows), columns = static_cast<double>(band.columns);
  const double shift_x = static_cast<double>(band.left), shift_y = static_cast<double>(band.top);
  const bool is_down = edge.y0 < edge.y1;
  const double x0 = (is_down ? edge.x0 : edge.x1) - shift_x, y0 = (is_down ? edge.y0 : edge.y1) - shift_y;
  const double x1 = (is_down ? edge.x1 : edge.x0) - shift_x, y1 = (is_down ? edge.y1 : edge.y0) - shift_y;
  const double from = std::max(y0, 0.0), to = std::min(y1, rows);
  if (from >= to) return;
  const double slope = (x1 - x0) / (y1 - y0);
  std::array<double, 4> cuts = {from, to, to, to};  // where it enters or leaves the columns
  size_t count = 1;
  for (const double side : {0.0, columns}) {
    const double y = slope == 0 ? to : y0 + (side - x0) / slope;
    if (y > from && y < to) cuts[count++] = y;
  }
  std::sort(cuts.begin(), cuts.begin() + static_cast<ptrdiff_t>(count));
  const auto inside = [&](double y) { return std::clamp(x0 + slope * (y - y0), 0.0, columns); };
  for (size_t i = 0; i < count; ++i)
    if (cuts[i] < cuts[i + 1])
      add_inside(band, {inside(cuts[i]), cuts[i], inside(cuts[i + 1]), cuts[i + 1]}, is_down ? 1 : -1);
}

// An edge that goes down, inside the band: the part of it in each row.
void Coverage::add_inside(Band& band, const Edge& edge, double direction) {
  const double slope = (edge.x1 - edge.x0) / (edge.y1 - edge.y0);
  const auto x_at = [&](double y) {
    return std::clamp(edge.x0 + slope * (y - edge.y0), std::min(edge.x0, edge.x1), std::max(edge.x0, edge.x1));
  };
  const auto last = std::min(static_cast<size_t>(std::ceil(edge.y1)), band.rows);
  for (auto row = static_cast<size_t>(edge.y0); row < last; ++row) {
    const double from = std::max(edge.y0, static_cast<double>(row));
    const double to = std::min(edge.y1, static_cast<double>(row + 1));
    const double x0 = x_at(from), x1 = x_at(to);
    add_row(std::span(band.sums).subspan(row * band.columns, band.columns), std::min(x0, x1), std::max(x0, x1),
            (to - from) * direction);
  }
}

// A column right of the edge is covered by the height of the edge; one that the edge crosses by the area right of it.
void Coverage::add_row(std::span<float> row, double x0, double x1, double height) {
  const auto add = [&](size_t column, double value) {
    if (column < row.size()) row[column] += static_cast<float>(value);
  };
  const auto first = static_cast<size_t>(x0), last = static_cast<size_t>(x1);
  if (first == last) {
    const double right = 1 - ((x0 + x1) / 2 - static_cast<double>(first));
    add(first, height * right);
    add(first + 1, height * (1 - right));
    return;
  }
  const double per_column = height / (x1 - x0);
  double before = 0;  // the coverage of the column on the left
  double passed = 0;  // the height of the edge left of this column
  for (size_t column = first; column <= last; ++column) {
    const double from = std::max(x0, static_cast<double>(column)), to = std::min(x1, static_cast<double>(column + 1));
    const double part = per_column * (to - from);
    const double covered = passed + part * (1 - ((from + to) / 2 - static_cast<double>(column)));
    add(column, covered - before);
    before = covered;
    passed += part;
  }
  add(last + 1, height - before);
}

}  // namespace weightfs::plot
