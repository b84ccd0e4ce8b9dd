#include "report/plot/vector/svg.h"

#include <fmt/core.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "base/values/base64.h"
#include "report/plot/raster/png.h"
#include "report/plot/vector/numbers.h"

namespace weightfs::plot {
namespace {

std::string colour_text(Rgb colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

// Text of XML 1.0, which has no control characters and no U+FFFE and U+FFFF.
std::string xml_text(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (text.substr(i, 3) == "\xEF\xBF\xBE" || text.substr(i, 3) == "\xEF\xBF\xBF") {
      out += '?';
      i += 2;
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return out;
}

const char* word_of(Drawing::Anchor anchor) {
  switch (anchor) {
    case Drawing::Anchor::middle:
      return "middle";
    case Drawing::Anchor::end:
      return "end";
    case Drawing::Anchor::start:
      break;
  }
  return "start";
}

}  // namespace

SvgDrawing::SvgDrawing(size_t width, size_t height)
    : out_(fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" "
                       "width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" fill=\"{2}\" "
                       "font-family=\"DejaVu Sans, Verdana, sans-serif\">\n"
                       "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
                       width, height, colour_text(kInk))) {}

void SvgDrawing::line(std::span<const Point> points, Rgb colour, double width, Dashes dashes) {
  for (const std::span<const Point> run : finite_runs(points)) {
    out_ += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"", colour_text(colour),
                        number_text(width));
    if (dashes == Dashes::some) out_ += fmt::format(" stroke-dasharray=\"{} {}\"", kDash, kPeriod - kDash);
    out_ += " points=\"";
    for (const auto& [x, y] : run) out_ += fmt::format("{},{} ", number_text(x), number_text(y));
    out_.back() = '"';
    out_ += "/>\n";
  }
}

void SvgDrawing::text(const std::string& text, double x, double y, double size, Anchor anchor, bool upwards) {
  if (!std::isfinite(x) || !std::isfinite(y) || text.empty()) return;
  const std::string at = fmt::format("{} {}", number_text(x), number_text(y));
  out_ += fmt::format("<text font-size=\"{}\" text-anchor=\"{}\" transform=\"translate({}){}\">{}</text>\n",
                      number_text(size), word_of(anchor), at, upwards ? " rotate(-90)" : "", xml_text(text));
}

void SvgDrawing::image(std::span<const Rgb> cells, size_t columns, size_t rows, double x, double y, double width,
                       double height) {
  if (columns == 0 || rows == 0 || !is_area(x, y, width, height)) return;
  const auto png = to_png(cells.first(columns * rows), columns);
  if (!png) {
    if (images_) images_ = failure(png.error());
    return;
  }
  out_ += fmt::format(
      "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" "
      "style=\"image-rendering:pixelated\" xlink:href=\"data:image/png;base64,{}\"/>\n",
      number_text(x), number_text(y), number_text(width), number_text(height), base64(*png));
}

Result<std::string> SvgDrawing::finish() && {
  TRY_VOID(std::move(images_));
  return std::move(out_) + "</svg>\n";
}

}  // namespace weightfs::plot
