#include "report/plot/raster/stroke.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace weightfs::plot {
namespace {

constexpr double kMiterLimit = 10;  // the usual one: sharper turns are bevelled

// A part of a line, and the distance along the line to it.
struct Segment {
  Point begin, end;
  double passed;

  double length() const { return std::hypot(end.first - begin.first, end.second - begin.second); }
  Point at(double along) const {
    const double part = along / length();
    return {begin.first + (end.first - begin.first) * part, begin.second + (end.second - begin.second) * part};
  }
  Point direction() const { return {(end.first - begin.first) / length(), (end.second - begin.second) / length()}; }
};

// The distances between which a segment is near the drawing.
std::optional<std::pair<double, double>> visible_part(const Segment& segment, double margin, const Point& drawing) {
  const Point way = segment.direction();
  double from = 0, to = segment.length();
  const auto clip = [&](double begin, double step, double last) {
    if (step == 0) {
      if (begin < -margin || begin > last + margin) to = -1;
      return;
    }
    const double one = (-margin - begin) / step, other = (last + margin - begin) / step;
    from = std::max(from, std::min(one, other));
    to = std::min(to, std::max(one, other));
  };
  clip(segment.begin.first, way.first, drawing.first);
  clip(segment.begin.second, way.second, drawing.second);
  if (!(from < to)) return std::nullopt;
  return std::pair(from, to);
}

void add_bar(Coverage& coverage, const Segment& segment, double from, double to, double half) {
  const Point a = segment.at(from), b = segment.at(to), way = segment.direction();
  const double x = -way.second * half, y = way.first * half;
  coverage.add(std::array{Point(a.first + x, a.second + y), Point(b.first + x, b.second + y),
                          Point(b.first - x, b.second - y), Point(a.first - x, a.second - y)});
}

// The corner on the outer side of a turn. It goes the same way round as the bars.
void add_join(Coverage& coverage, const Segment& before, const Segment& after, double half) {
  const Point one = before.direction(), other = after.direction();
  const double turn = one.first * other.second - one.second * other.first;
  const double cosine = one.first * other.first + one.second * other.second;
  if (turn == 0) return;
  const double side = turn > 0 ? -half : half;  // the outer side
  const Point& p = after.begin;
  const Point a(p.first - one.second * side, p.second + one.first * side);
  const Point b(p.first - other.second * side, p.second + other.first * side);
  std::vector<Point> corner = {p, a};
  if (2 <= kMiterLimit * kMiterLimit * (1 + cosine)) {
    const double scale = side / (1 + cosine);
    corner.emplace_back(p.first - (one.second + other.second) * scale, p.second + (one.first + other.first) * scale);
  }
  corner.push_back(b);
  if (turn > 0) std::reverse(corner.begin(), corner.end());
  coverage.add(corner);
}

bool is_drawn_at(double distance, Dashes dashes) {
  return dashes == Dashes::none || std::fmod(distance, kPeriod) < kDash;
}

void add_dashes(Coverage& coverage, const Segment& segment, double half, const std::pair<double, double>& part) {
  const double phase = std::fmod(segment.passed + part.first, kPeriod);
  for (double begin = part.first - phase; begin < part.second; begin += kPeriod) {
    const double from = std::max(begin, part.first), to = std::min(begin + kDash, part.second);
    if (from < to) add_bar(coverage, segment, from, to, half);
  }
}

}  // namespace

void add_stroke(Coverage& coverage, std::span<const Point> points, double width, Dashes dashes, const Point& drawing) {
  constexpr double kFarthestPoint = 1e6;
  const auto near = [&](const Point& point) {
    return Point(std::clamp(point.first, -kFarthestPoint, kFarthestPoint),
                 std::clamp(point.second, -kFarthestPoint, kFarthestPoint));
  };
  const auto is_finite = [](const Point& point) { return std::isfinite(point.first) && std::isfinite(point.second); };
  const double half = width / 2, margin = width * kMiterLimit;
  std::optional<Segment> before;
  double passed = 0;
  for (size_t i = 1; i < points.size(); ++i) {
    if (!is_finite(points[i - 1]) || !is_finite(points[i])) {
      before.reset();
      continue;
    }
    const Segment segment{near(points[i - 1]), near(points[i]), passed};
    if (segment.length() == 0) continue;
    if (before && is_drawn_at(passed, dashes)) add_join(coverage, *before, segment, half);
    if (const auto part = visible_part(segment, margin, drawing)) {
      if (dashes == Dashes::none)
        add_bar(coverage, segment, part->first, part->second, half);
      else
        add_dashes(coverage, segment, half, *part);
    }
    passed += segment.length();
    before = segment;
  }
}

}  // namespace weightfs::plot
