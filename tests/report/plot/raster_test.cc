// The renderer of pictures: coverage, lines, text, images and PNG.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "report/plot/raster/canvas.h"
#include "report/plot/raster/font.h"
#include "report/plot/raster/png.h"

namespace weightfs::plot {
namespace {

constexpr Rgb kWhite{255, 255, 255}, kBlack{0, 0, 0};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The coverage of all pixels, row by row.
std::vector<unsigned> covered(const Coverage& coverage, size_t width, size_t height) {
  std::vector<unsigned> out(width * height);
  coverage.each_row([&](size_t row, size_t column, std::span<const uint8_t> parts) {
    for (size_t i = 0; i < parts.size(); ++i) out.at(row * width + column + i) = parts[i];
  });
  return out;
}

std::vector<unsigned> covered(const std::vector<std::vector<Point>>& polygons, size_t width, size_t height) {
  Coverage coverage(width, height);
  for (const auto& polygon : polygons) coverage.add(polygon);
  return covered(coverage, width, height);
}

double area_of(const std::vector<unsigned>& coverage) {
  double sum = 0;
  for (const unsigned part : coverage) sum += part;
  return sum / 255;
}

std::vector<Point> rectangle(double left, double top, double right, double bottom) {
  return {{left, top}, {right, top}, {right, bottom}, {left, bottom}};
}

Canvas canvas_of(size_t width, size_t height) { return *Canvas::create(width, height); }

size_t painted(const Canvas& canvas) {
  size_t count = 0;
  for (const Rgb& pixel : canvas.pixels()) count += pixel == kWhite ? 0U : 1U;
  return count;
}

TEST(Coverage, WholePixelsAreCrisp) {
  EXPECT_EQ(covered({rectangle(1, 1, 3, 2)}, 4, 3), (std::vector<unsigned>{0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0, 0}));
}

TEST(Coverage, PartsOfPixelsAreTheirArea) {
  EXPECT_EQ(covered({rectangle(0.5, 0.25, 2.25, 1)}, 3, 1), (std::vector<unsigned>{96, 191, 48}));
  EXPECT_EQ(covered({{{0, 0}, {2, 2}, {0, 2}}}, 2, 2), (std::vector<unsigned>{128, 0, 255, 128}));
  EXPECT_EQ(covered({{{0, 1}, {4, 0}, {4, 1}}}, 4, 1), (std::vector<unsigned>{32, 96, 159, 223}));
}

TEST(Coverage, AreaOfPolygonsIsExact) {
  for (const size_t corners : {3U, 5U, 8U, 64U}) {
    std::vector<Point> polygon;
    for (size_t i = 0; i < corners; ++i) {
      const double angle = 6.283185307179586 * static_cast<double>(i) / static_cast<double>(corners);
      polygon.emplace_back(100.3 + 80.7 * std::cos(angle), 100.6 + 80.7 * std::sin(angle));
    }
    const auto n = static_cast<double>(corners);
    const double area = n / 2 * 80.7 * 80.7 * std::sin(6.283185307179586 / n);
    // Only pixels at the border, at most 800, are rounded to 1/255, half of them up.
    EXPECT_NEAR(area_of(covered({polygon}, 200, 200)), area, 0.3) << corners;
  }
}

TEST(Coverage, PolygonInTheOtherDirectionIsAHole) {
  auto hole = rectangle(1, 1, 2, 2);
  std::reverse(hole.begin(), hole.end());
  EXPECT_EQ(covered({rectangle(0, 0, 3, 3), hole}, 3, 3),
            (std::vector<unsigned>{255, 255, 255, 255, 0, 255, 255, 255, 255}));
  EXPECT_EQ(covered({rectangle(0, 0, 2, 1), rectangle(1, 0, 3, 1)}, 3, 1), (std::vector<unsigned>{255, 255, 255}));
}

TEST(Coverage, PartsOutsideAreLeftOut) {
  EXPECT_EQ(covered({rectangle(-1e300, -1e300, 1e300, 1e300)}, 2, 2), std::vector<unsigned>(4, 255));
  EXPECT_EQ(covered({rectangle(-5, -5, 1, 1)}, 2, 2), (std::vector<unsigned>{255, 0, 0, 0}));
  EXPECT_EQ(covered({rectangle(1, 1, 50, 50)}, 2, 2), (std::vector<unsigned>{0, 0, 0, 255}));
  EXPECT_EQ(covered({{{-2, -2}, {2, 2}, {-2, 2}}}, 2, 2), (std::vector<unsigned>{128, 0, 255, 128}));
  for (const double outside : {-10.0, 10.0}) {
    EXPECT_EQ(area_of(covered({rectangle(outside, 0, outside + 1, 1)}, 2, 2)), 0);
    EXPECT_EQ(area_of(covered({rectangle(0, outside, 1, outside + 1)}, 2, 2)), 0);
  }
}

TEST(Coverage, PolygonThatIsNotFiniteIsLeftOut) {
  for (const double number : {kNan, kInfinity, -kInfinity}) {
    EXPECT_EQ(area_of(covered({{{0, 0}, {number, 0}, {1, 1}}}, 2, 2)), 0);
    EXPECT_EQ(area_of(covered({{{0, 0}, {1, number}, {1, 1}}}, 2, 2)), 0);
  }
  EXPECT_EQ(area_of(covered({{}, {{1, 1}}, {{0, 0}, {1, 1}}}, 2, 2)), 0);
}

// A band has 2^18 cells: 32 rows of this width.
TEST(Coverage, BandsOfWideDrawingsMeet) {
  const auto coverage = covered({{{0, 0}, {8192, 0}, {8192, 100}, {0, 100}}}, 8192, 100);
  EXPECT_EQ(coverage, std::vector<unsigned>(8192 * 100, 255));
  EXPECT_NEAR(area_of(covered({{{0, 0}, {8192, 100}, {0, 100}}}, 8192, 100)), 8192 * 50, 20);
}

unsigned line_area(std::vector<Point> points, double width, Dashes dashes = Dashes::none) {
  Coverage coverage(100, 100);
  add_stroke(coverage, points, width, dashes, {100, 100});
  return static_cast<unsigned>(std::lround(area_of(covered(coverage, 100, 100)) * 10));
}

TEST(Stroke, HasItsWidthItsCornersAndItsDashes) {
  EXPECT_EQ(line_area({{10, 20.5}, {60, 20.5}}, 1), 500U);
  EXPECT_EQ(line_area({{10, 10}, {40, 50}}, 3), 1500U);
  EXPECT_EQ(line_area({{10, 10}, {50, 10}, {50, 50}}, 2), 1600U);             // with the corner, without the overlap
  EXPECT_EQ(line_area({{50, 10}, {10, 10}, {10, 50}}, 2), 1600U);             // the other turn
  EXPECT_EQ(line_area({{10, 10}, {30, 10}, {50, 10}}, 2), 800U);              // straight on
  EXPECT_EQ(line_area({{0, 10}, {60, 10}}, 2, Dashes::some), 800U);           // 4 of 6
  EXPECT_EQ(line_area({{0, 10}, {3, 10}, {60, 10}}, 2, Dashes::some), 800U);  // goes on at a point
  EXPECT_EQ(line_area({{-6e5, 10}, {60, 10}}, 2, Dashes::some), 800U);        // and outside
}

TEST(Stroke, HostilePointsCostNothing) {
  EXPECT_EQ(line_area({{-1e300, 10}, {1e300, 10}}, 2), 2000U);
  EXPECT_EQ(line_area({{10, 10}, {10, 10}}, 2), 0U);
  EXPECT_EQ(line_area({{10, 10}}, 2), 0U);
  EXPECT_EQ(line_area({}, 2), 0U);
  EXPECT_EQ(line_area({{0, 10}, {20, 10}, {kNan, 10}, {40, 10}, {60, 10}}, 2), 800U);
  for (size_t i = 0; i < 1000; ++i) line_area({{-1e300, 5}, {1e300, 5}, {-1e9, 7}}, 1, Dashes::some);
}

TEST(Font, MeasuresCharactersInWholePixels) {
  EXPECT_EQ(advance_of("", 11), 0);
  EXPECT_EQ(advance_of("0", 11), 7);      // 1303 of 2048
  EXPECT_EQ(advance_of("00.0", 11), 25);  // and 651 for the point, which is 4
  EXPECT_EQ(advance_of("m", 100), 97);
  EXPECT_EQ(advance_of("é", 16), advance_of("e", 16));
}

TEST(Font, HasTheCharactersOfPictures) {
  const auto box = outlines_of("\uFFFF", 100);
  for (const std::string text : {"~", "ÿ", "×", "µ", "σ", "…", "·", "−", "≤", "Ω", "é"})
    EXPECT_NE(outlines_of(text, 100), box) << text;
  EXPECT_TRUE(outlines_of(" ", 100).empty());
}

TEST(Font, UnknownCharactersAreABox) {
  const auto box = outlines_of("\uFFFF", 16);
  ASSERT_EQ(box.size(), 2U);
  for (const std::string text : {"日", "\U0001F600", "\x01", "\uFDD0", "\U0010FFFF"}) {
    EXPECT_EQ(outlines_of(text, 16), box) << text;
    EXPECT_EQ(advance_of(text, 16), 10) << text;
  }
  for (const std::string text : {"\xFF", "\xC3", "\xED\xA0\x80"})
    EXPECT_EQ(outlines_of(text, 16)[0], outlines_of("\uFFFD", 16)[0]);
  EXPECT_EQ(outlines_of(std::string("a\0b", 3), 16).size(), outlines_of("ab", 16).size() + 2);
}

TEST(Font, BaselineAndHeightOfLettersAreOnWholePixels) {
  for (const double size : {11.0, 13.0, 16.0}) {
    double top = 0, bottom = -100;
    for (const auto& polygon : outlines_of("zx", size)) {
      for (const auto& [x, y] : polygon) {
        top = std::min(top, y);
        bottom = std::max(bottom, y);
      }
    }
    EXPECT_EQ(bottom, 0);
    EXPECT_EQ(top, std::round(top));
    EXPECT_LT(top, 0);
  }
}

TEST(Canvas, SizeIsBounded) {
  for (const auto& [width, height] :
       {std::pair<size_t, size_t>{0, 1}, {1, 0}, {32768, 1}, {1, SIZE_MAX}, {32767, 32767}}) {
    const auto canvas = Canvas::create(width, height);
    ASSERT_FALSE(canvas);
    EXPECT_EQ(canvas.error().code, Code::resource);
  }
  EXPECT_EQ(canvas_of(3, 2).pixels(), std::vector<Rgb>(6, kWhite));
}

TEST(Canvas, ImageIsScaledWithoutSmoothing) {
  Canvas canvas = canvas_of(6, 3);
  const std::array cells = {kBlack, Rgb{1, 2, 3}};
  canvas.image(cells, 2, 1, 1, 1, 4, 1);
  const std::vector<Rgb> row = {kWhite, kBlack, kBlack, {1, 2, 3}, {1, 2, 3}, kWhite};
  EXPECT_TRUE(std::equal(row.begin(), row.end(), std::next(canvas.pixels().begin(), 6)));
  EXPECT_EQ(painted(canvas), 4U);
}

TEST(Canvas, HostileCoordinatesPaintNothing) {
  Canvas canvas = canvas_of(20, 20);
  const std::array cells = {kBlack};
  for (const double number : {kNan, kInfinity, -kInfinity, 1e300, -1e300}) {
    canvas.text("text", number, 10, 11, Canvas::Anchor::start);
    canvas.text("text", 10, number, 11, Canvas::Anchor::end, true);
    canvas.image(cells, 1, 1, number, 0, 1, 1);
    canvas.image(cells, 1, 1, 0, number, 1, 1);
    canvas.image(cells, 1, 1, 0, 0, -std::abs(number), 1);
  }
  EXPECT_EQ(painted(canvas), 0U);
}

TEST(Canvas, TextIsAnchoredAndTurned) {
  const auto columns = [](Canvas::Anchor anchor, bool upwards) {
    Canvas canvas = canvas_of(100, 100);
    canvas.text("||||", 50, 50, 16, anchor, upwards);
    size_t first = 100, last = 0;
    for (size_t i = 0; i < canvas.pixels().size(); ++i) {
      const size_t place = upwards ? 99 - i / 100 : i % 100;
      if (canvas.pixels()[i] == kWhite) continue;
      first = std::min(first, place);
      last = std::max(last, place);
    }
    return std::pair(first, last);
  };
  for (const bool upwards : {false, true}) {
    EXPECT_GE(columns(Canvas::Anchor::start, upwards).first, 49U);
    EXPECT_LE(columns(Canvas::Anchor::end, upwards).second, 50U);
    const auto [first, last] = columns(Canvas::Anchor::middle, upwards);
    EXPECT_NEAR(static_cast<double>(first + last) / 2, 50, 1.5);
  }
}

TEST(Png, EqualPixelsGiveEqualBytes) {
  const std::vector<Rgb> pixels = {{1, 2, 3}, {4, 5, 6}, {1, 2, 3}, {255, 0, 9}};
  const auto png = to_png(pixels, 2);
  ASSERT_TRUE(png);
  EXPECT_EQ(*png, *to_png(pixels, 2));
  EXPECT_EQ(png->substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(png->substr(8, 25), std::string("\0\0\0\rIHDR\0\0\0\x02\0\0\0\x02\x08\x02\0\0\0\xFD\xD4\x9A\x73", 25));
  EXPECT_EQ(png->substr(png->size() - 12), std::string("\0\0\0\0IEND\xAE\x42\x60\x82", 12));
}

}  // namespace
}  // namespace weightfs::plot
