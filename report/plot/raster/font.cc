#include "report/plot/raster/font.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/text.h"

namespace weightfs::plot {
namespace {

constexpr double kEm = 2048;

struct OutlinePoint {
  double x, y;
  bool is_on_curve;
};
using Contour = std::vector<OutlinePoint>;

struct Glyph {
  double advance = 0;
  std::vector<Contour> contours;
};

class OutlineReader {
 public:
  bool is_at_end() {
    while (!rest_.empty() && rest_.front() == '\n') rest_.remove_prefix(1);
    return rest_.empty();
  }

  unsigned number() {
    unsigned out = 0;
    for (unsigned shift = 0; !is_at_end(); shift += 5) {
      const unsigned digit = static_cast<unsigned char>(rest_.front()) - 0x30U;
      rest_.remove_prefix(1);
      out |= (digit & 31) << shift;
      if ((digit & 32) == 0) break;
    }
    return out;
  }

  static int signed_of(unsigned number) {
    const int half = static_cast<int>(number / 2);
    return number % 2 == 0 ? half : -half - 1;
  }

  Glyph glyph() {
    Glyph out;
    out.advance = number();
    int x = 0, y = 0;
    for (unsigned contours = number(); contours > 0; --contours) {
      Contour& contour = out.contours.emplace_back();
      for (unsigned points = number(); points > 0; --points) {
        const unsigned across = number();
        x += signed_of(across / 2);
        y += signed_of(number());
        contour.push_back({static_cast<double>(x), static_cast<double>(y), across % 2 == 1});
      }
    }
    return out;
  }

 private:
  std::string_view rest_ = kFontOutlines;
};

std::map<char32_t, Glyph> read_glyphs() {
  std::map<char32_t, Glyph> glyphs;
  OutlineReader reader;
  for (char32_t code = 0; !reader.is_at_end();) {
    code += reader.number();
    glyphs[code] = reader.glyph();
  }
  return glyphs;
}

// A frame: the inner contour goes the other way.
Glyph box() {
  const auto frame = [](double left, double bottom, double right, double top) {
    return Contour{{left, bottom, true}, {left, top, true}, {right, top, true}, {right, bottom, true}};
  };
  Contour inner = frame(344, 150, 884, 1343);
  std::reverse(inner.begin(), inner.end());
  return {1228, {frame(194, 0, 1034, 1493), inner}};
}

const Glyph& glyph_of(char32_t code) {
  static const std::map<char32_t, Glyph> glyphs = read_glyphs();
  static const Glyph unknown = box();
  const auto found = glyphs.find(code);
  return found == glyphs.end() ? unknown : found->second;
}

// Removes the first character. A byte that is not of UTF-8 is U+FFFD.
char32_t take_character(std::string_view& text) {
  const size_t length = utf8_sequence(text);
  const auto first = static_cast<unsigned char>(text.front());
  char32_t code = length == 0 ? 0xFFFD : length == 1 ? first : first & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3FU);
  text.remove_prefix(std::max<size_t>(length, 1));
  return code;
}

// FreeType rounds to 1/64 pixel first. So does this: the point of a number, which is near 3.5 pixels wide, has 4.
double pixels_of_advance(const Glyph& glyph, double size) {
  return std::round(std::round(glyph.advance * size / kEm * 64) / 64);
}

// Moves the heights where letters begin and end, and the inner sides of the lines there, to whole pixels.
class Heights {
 public:
  explicit Heights(double size) : scale_(size / kEm) {
    const double stem = std::max(std::round(kStem * scale_), 1.0);
    const double small = std::round(kSmall * scale_), capital = std::round(kCapital * scale_);
    const double line = std::round(-kLine * scale_);
    anchors_ = {{{-kLine - kLineHeight, line - std::max(std::round(kLineHeight * scale_), 1.0)},
                 {-kLine, line},
                 {-kOvershoot, 0},
                 {0, 0},
                 {kStem, stem},
                 {kSmall - kStem, small - stem},
                 {kSmall, small},
                 {kSmall + kOvershoot, small},
                 {kCapital - kStem, capital - stem},
                 {kCapital, capital},
                 {kCapital + kOvershoot, capital},
                 {kAscender, std::round(kAscender * scale_)}}};
    for (size_t i = 1; i < anchors_.size(); ++i) anchors_[i].to = std::max(anchors_[i].to, anchors_[i - 1].to);
  }

  double of(double y) const {
    const auto above = std::ranges::find_if(anchors_, [&](const Anchor& anchor) { return y <= anchor.from; });
    if (above == anchors_.begin()) return above->to + (y - above->from) * scale_;
    const Anchor& below = *(above - 1);
    if (above == anchors_.end()) return below.to + (y - below.from) * scale_;
    return below.to + (y - below.from) * (above->to - below.to) / (above->from - below.from);
  }

 private:
  // Heights in DejaVu Sans, in units of the em.
  static constexpr double kLine = 340, kLineHeight = 143;  // of the underscore
  static constexpr double kOvershoot = 29, kStem = 150, kSmall = 1120, kCapital = 1493, kAscender = 1556;
  struct Anchor {
    double from, to;
  };

  double scale_;
  std::array<Anchor, 12> anchors_;
};

// A curve of the second degree, without its beginning.
void add_curve(std::vector<Point>& polygon, const Point& begin, const Point& control, const Point& end) {
  const double bend =
      std::hypot(begin.first - 2 * control.first + end.first, begin.second - 2 * control.second + end.second);
  const auto steps = static_cast<size_t>(std::clamp(std::ceil(std::sqrt(bend) * 2), 1.0, 32.0));  // within 1/16 pixel
  for (size_t i = 1; i <= steps; ++i) {
    const double t = static_cast<double>(i) / static_cast<double>(steps), s = 1 - t;
    polygon.emplace_back(s * s * begin.first + 2 * s * t * control.first + t * t * end.first,
                         s * s * begin.second + 2 * s * t * control.second + t * t * end.second);
  }
}

// Between two points that are not on the curve, there is one on it in the middle (TrueType).
std::vector<Point> polygon_of(const Contour& contour, double x, double scale, const Heights& heights) {
  const auto place = [&](const OutlinePoint& point) { return Point(x + point.x * scale, -heights.of(point.y)); };
  const auto middle = [](const Point& a, const Point& b) {
    return Point((a.first + b.first) / 2, (a.second + b.second) / 2);
  };
  std::vector<Point> polygon;
  if (contour.empty()) return polygon;
  const OutlinePoint& first = contour.front();
  Point at = first.is_on_curve ? place(first) : middle(place(contour.back()), place(first));
  polygon.push_back(at);
  for (size_t i = first.is_on_curve ? 1 : 0; i < contour.size(); ++i) {
    const Point next = place(contour[i]);
    if (contour[i].is_on_curve) {
      polygon.push_back(next);
    } else {
      const OutlinePoint& after = contour[(i + 1) % contour.size()];
      const bool is_last = i + 1 == contour.size();
      const Point end = is_last ? polygon.front() : after.is_on_curve ? place(after) : middle(next, place(after));
      add_curve(polygon, at, next, end);
      if (after.is_on_curve) ++i;
    }
    at = polygon.back();
  }
  return polygon;
}

}  // namespace

double advance_of(std::string_view text, double size) {
  double width = 0;
  while (!text.empty()) width += pixels_of_advance(glyph_of(take_character(text)), size);
  return width;
}

std::vector<std::vector<Point>> outlines_of(std::string_view text, double size) {
  const Heights heights(size);
  std::vector<std::vector<Point>> polygons;
  for (double x = 0; !text.empty();) {
    const Glyph& glyph = glyph_of(take_character(text));
    for (const Contour& contour : glyph.contours) polygons.push_back(polygon_of(contour, x, size / kEm, heights));
    x += pixels_of_advance(glyph, size);
  }
  return polygons;
}

}  // namespace weightfs::plot
