// Drawing in memory: lines, text and images, without another library or a font of the system.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "report/plot/palette.h"
#include "report/plot/raster/drawing.h"

namespace weightfs::plot {

/// A drawing in memory.
class Canvas final : public Drawing {
 public:
  /// A white drawing. Fails with resource if a side is 0 or too long for a picture.
  static Result<Canvas> create(size_t width, size_t height);

  void line(std::span<const Point> points, Rgb colour, double width, Dashes dashes = Dashes::none) override;
  void text(const std::string& text, double x, double y, double size, Anchor anchor, bool upwards = false) override;
  void image(std::span<const Rgb> cells, size_t columns, size_t rows, double x, double y, double width,
             double height) override;

  size_t width() const { return width_; }
  size_t height() const { return pixels_.size() / width_; }
  /// The pixels, row by row.
  const std::vector<Rgb>& pixels() const { return pixels_; }

 private:
  Canvas(size_t width, size_t height) : width_(width), pixels_(width * height, Rgb{255, 255, 255}) {}
  void paint(const Coverage& coverage, Rgb colour);

  size_t width_;
  std::vector<Rgb> pixels_;
};

}  // namespace weightfs::plot
