// What pictures are drawn on: pixels, or the lines and texts of SVG and PDF.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "report/plot/palette.h"
#include "report/plot/raster/stroke.h"

namespace weightfs::plot {

/// The colour of texts.
inline constexpr Rgb kInk{40, 40, 40};

/// A white drawing. Coordinates are pixels from the upper left corner; points that are not finite are left out.
class Drawing {
 public:
  enum class Anchor { start, middle, end };

  Drawing() = default;
  virtual ~Drawing() = default;

  /// A line through points.
  virtual void line(std::span<const Point> points, Rgb colour, double width, Dashes dashes = Dashes::none) = 0;
  /// One line of text, whose baseline begins, has its middle, or ends at a point; `upwards` turns it.
  virtual void text(const std::string& text, double x, double y, double size, Anchor anchor, bool upwards = false) = 0;
  /// Cells of one colour each, as an image that is scaled to a rectangle without smoothing.
  virtual void image(std::span<const Rgb> cells, size_t columns, size_t rows, double x, double y, double width,
                     double height) = 0;

 protected:
  Drawing(const Drawing&) = default;
  Drawing(Drawing&&) = default;
  Drawing& operator=(const Drawing&) = default;
  Drawing& operator=(Drawing&&) = default;
};

}  // namespace weightfs::plot
