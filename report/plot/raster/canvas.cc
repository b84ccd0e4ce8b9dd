#include "report/plot/raster/canvas.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "report/plot/raster/font.h"

namespace weightfs::plot {
namespace {

constexpr size_t kMostPixels = size_t{1} << 27;
constexpr size_t kLongestSide = 32767;

// The pixels whose centres lie between two places, of `count`.
std::pair<size_t, size_t> centres_between(double from, double to, size_t count) {
  const auto index = [&](double place) {
    return static_cast<size_t>(std::clamp(std::ceil(place - 0.5), 0.0, static_cast<double>(count)));
  };
  return {index(from), index(to)};
}

}  // namespace

Result<Canvas> Canvas::create(size_t width, size_t height) {
  if (width == 0 || height == 0 || std::max(width, height) > kLongestSide || width * height > kMostPixels)
    return failure(Code::resource, fmt::format("{} x {} pixels cannot be drawn; at most {} on a side, and {}", width,
                                               height, kLongestSide, kMostPixels));
  return Canvas(width, height);
}

void Canvas::paint(const Coverage& coverage, Rgb colour) {
  coverage.each_row([&](size_t row, size_t column, std::span<const uint8_t> parts) {
    Rgb* pixel = &pixels_[row * width_ + column];
    for (const unsigned part : parts) {
      const auto mix = [&](uint8_t from, uint8_t to) {
        return static_cast<uint8_t>((from * (255 - part) + to * part + 127) / 255);
      };
      *pixel = {mix(pixel->red, colour.red), mix(pixel->green, colour.green), mix(pixel->blue, colour.blue)};
      ++pixel;
    }
  });
}

void Canvas::line(std::span<const Point> points, Rgb colour, double width, Dashes dashes) {
  Coverage coverage(width_, height());
  add_stroke(coverage, points, width, dashes, {static_cast<double>(width_), static_cast<double>(height())});
  paint(coverage, colour);
}

// The pen begins at a whole pixel, so equal letters look equal.
void Canvas::text(const std::string& text, double x, double y, double size, Anchor anchor, bool upwards) {
  const double width = advance_of(text, size);
  const double shift = anchor == Anchor::start ? 0 : anchor == Anchor::middle ? width / 2 : width;
  const double left = std::round(upwards ? x : x - shift), base = std::round(upwards ? y + shift : y);
  Coverage coverage(width_, height());
  for (std::vector<Point>& polygon : outlines_of(text, size)) {
    for (Point& point : polygon) {
      if (upwards) point = {point.second, -point.first};
      point = {left + point.first, base + point.second};
    }
    coverage.add(polygon);
  }
  paint(coverage, kInk);
}

void Canvas::image(std::span<const Rgb> cells, size_t columns, size_t rows, double x, double y, double width,
                   double height) {
  const bool is_finite = std::isfinite(x) && std::isfinite(y) && std::isfinite(width) && std::isfinite(height);
  if (columns == 0 || rows == 0 || !is_finite || width <= 0 || height <= 0) return;
  const auto cell = [](size_t pixel, double begin, double size, size_t count) {
    const double place = (static_cast<double>(pixel) + 0.5 - begin) / size * static_cast<double>(count);
    return std::min(static_cast<size_t>(std::max(place, 0.0)), count - 1);
  };
  const auto [left, right] = centres_between(x, x + width, width_);
  const auto [top, bottom] = centres_between(y, y + height, this->height());
  for (size_t row = top; row < bottom; ++row) {
    const auto line = cells.subspan(cell(row, y, height, rows) * columns, columns);
    for (size_t column = left; column < right; ++column)
      pixels_[row * width_ + column] = line[cell(column, x, width, columns)];
  }
}

}  // namespace weightfs::plot
