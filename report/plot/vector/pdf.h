// Pictures as PDF 1.4, a page of their size: texts are outlines, so that no font is needed, and heat maps are images.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "report/plot/raster/drawing.h"

namespace weightfs::plot {

class PdfDrawing final : public Drawing {
 public:
  /// A drawing of this size in pixels, of which 96 are an inch.
  PdfDrawing(size_t width, size_t height);

  void line(std::span<const Point> points, Rgb colour, double width, Dashes dashes = Dashes::none) override;
  void text(const std::string& text, double x, double y, double size, Anchor anchor, bool upwards = false) override;
  void image(std::span<const Rgb> cells, size_t columns, size_t rows, double x, double y, double width,
             double height) override;

  /// The whole file. Equal drawings give equal bytes. Fails with resource.
  Result<std::string> finish() &&;

 private:
  struct Image {
    size_t columns, rows;
    std::string pixels;  // RGB
  };

  size_t width_, height_;
  std::string content_;  // the operators of the page
  std::vector<Image> images_;
};

}  // namespace weightfs::plot
