#include "report/plot/vector/numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace weightfs::plot {

std::string number_text(double number) {
  constexpr double kFar = 1e6;
  std::string out = fmt::format("{:.2f}", std::clamp(number, -kFar, kFar));
  out.erase(out.find_last_not_of('0') + 1);
  if (out.ends_with('.')) out.pop_back();
  return out == "-0" ? "0" : out;
}

bool is_area(double x, double y, double width, double height) {
  return std::isfinite(x) && std::isfinite(y) && std::isfinite(width) && std::isfinite(height) && width > 0 &&
         height > 0;
}

std::vector<std::span<const Point>> finite_runs(std::span<const Point> points) {
  const auto is_finite = [](const Point& point) { return std::isfinite(point.first) && std::isfinite(point.second); };
  std::vector<std::span<const Point>> runs;
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    while (end < points.size() && is_finite(points[end])) ++end;
    if (end - begin >= 2) runs.push_back(points.subspan(begin, end - begin));
    begin = end + 1;
  }
  return runs;
}

}  // namespace weightfs::plot
