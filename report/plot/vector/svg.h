// Pictures as SVG 1.1: texts stay texts, and heat maps are images in the file.
#pragma once

#include <string>

#include "base/result.h"
#include "report/plot/raster/drawing.h"

namespace weightfs::plot {

class SvgDrawing final : public Drawing {
 public:
  /// A drawing of this size in pixels.
  SvgDrawing(size_t width, size_t height);

  void line(std::span<const Point> points, Rgb colour, double width, Dashes dashes = Dashes::none) override;
  void text(const std::string& text, double x, double y, double size, Anchor anchor, bool upwards = false) override;
  void image(std::span<const Rgb> cells, size_t columns, size_t rows, double x, double y, double width,
             double height) override;

  /// The whole file. Equal drawings give equal bytes. Fails with resource.
  Result<std::string> finish() &&;

 private:
  std::string out_;
  Result<void> images_;  // the first failure
};

}  // namespace weightfs::plot
