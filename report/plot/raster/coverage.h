// Converts polygons to coverage: the part of each pixel that they cover, from 0 (none) to 255 (all).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace weightfs::plot {

using Point = std::pair<double, double>;  // x to the right, y down

/// Collects polygons, and computes the coverage of them together. Where polygons of one direction overlap, the coverage
/// stays 255; a polygon in another that goes the other way is a hole.
class Coverage {
 public:
  /// The size of the drawing in pixels; parts of polygons outside it are not drawn.
  Coverage(size_t width, size_t height);

  /// A closed polygon. One with a coordinate that is not finite is left out.
  void add(std::span<const Point> polygon);

  /// Calls `paint` for each row that a polygon touches, from the top down, with the coverage of its columns from
  /// `column` on. Needs memory for some rows only.
  void each_row(const std::function<void(size_t row, size_t column, std::span<const uint8_t>)>& paint) const;

 private:
  struct Edge {
    double x0, y0, x1, y1;
  };
  struct Band {  // rows, and the sums of the coverage that each column adds to those right of it
    size_t top, rows, left, columns;
    std::vector<float> sums;
  };

  static void add_edge(Band& band, const Edge& edge);
  static void add_inside(Band& band, const Edge& edge, double direction);
  static void add_row(std::span<float> row, double x0, double x1, double height);

  double width_, height_;
  double left_, top_, right_ = 0, bottom_ = 0;  // the pixels that polygons touch
  std::vector<Edge> edges_;
};

}  // namespace weightfs::plot
